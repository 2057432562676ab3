"""An estimator for scikit-learn."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ._dataset import Dataset
from ._errors import UsageError
from ._run import complete

__all__ = ["TuckerCompletion"]


class TuckerCompletion(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Values at combinations of ids. X is a frame with a column per mode, or an array of integers.

    `validation` is the share of the rows that decides on biases, penalty and rank. An id that was not in `fit`
    has the value that the biases of the others say. The run lies in a temporary directory as long as the
    estimator is in use; where `out` is given it stays there, and the estimator can be pickled.
    """

    def __init__(
        self,
        rank: int | Sequence[int] | str = "auto",
        *,
        validation: float = 0.1,
        bins: Mapping[str, str | float] | None = None,
        max_iterations: int | None = None,
        patience: int | None = None,
        bias: str | None = None,
        penalty: float | str | None = None,
        clip: bool | None = None,
        memory: str | int | None = None,
        threads: int | None = None,
        seed: int = 1,
        out: str | None = None,
    ) -> None:
        self.rank = rank
        self.validation = validation
        self.bins = bins
        self.max_iterations = max_iterations
        self.patience = patience
        self.bias = bias
        self.penalty = penalty
        self.clip = clip
        self.memory = memory
        self.threads = threads
        self.seed = seed
        self.out = out

    def fit(self, X: Any, y: Any, sample_weight: Any | None = None) -> TuckerCompletion:
        """Fits the model to values at rows of ids."""
        columns = _columns(X)
        self.feature_names_in_ = np.array(list(columns), dtype=object)
        self.n_features_in_ = len(columns)
        extra = {_free("value", columns): np.asarray(y, dtype=np.float64)}
        value = next(iter(extra))
        weights = None
        if sample_weight is not None:
            weights = _free("weight", columns)
            extra[weights] = np.asarray(sample_weight, dtype=np.float64)
        if not 0 <= self.validation < 1:
            raise UsageError(f"`validation` {self.validation} is no share below 1")
        self.home_ = tempfile.TemporaryDirectory(prefix="tenfill-")
        place = os.path.join(self.home_.name, "run") if self.out is None else self.out
        share = 100 * self.validation
        data = Dataset.write(
            os.path.join(self.home_.name, "data.tenfill") if self.out is None else f"{self.out}.tenfill",
            columns | extra,
            modes=list(columns),
            value=value,
            weights=weights,
            bins=self.bins,
            split=f"{100 - share:g}/{share:g}/0",
            memory=self.memory,
            threads=self.threads,
            seed=self.seed,
            force=self.out is not None,
            progress=False,
        )
        run = complete(
            data,
            out=place,
            rank=self.rank,  # type: ignore[arg-type]
            max_iterations=self.max_iterations,
            patience=self.patience,
            bias=self.bias,  # type: ignore[arg-type]
            penalty=self.penalty,  # type: ignore[arg-type]
            clip=self.clip,
            memory=self.memory,
            threads=self.threads,
            seed=self.seed,
            force=self.out is not None,
            progress=False,
        )
        self.run_ = run
        self.model_ = run.model
        return self

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The values at rows of ids."""
        check_is_fitted(self, "model_")
        columns = _columns(X)
        if list(columns) != list(self.feature_names_in_):
            expected = ", ".join(self.feature_names_in_)
            raise UsageError(f"the columns are {', '.join(columns)}, those of `fit` were {expected}")
        return self.model_.predict(columns)["prediction"]


def _columns(X: Any) -> dict[str, Any]:
    if hasattr(X, "columns") and not isinstance(X, np.ndarray):
        return {str(name): np.asarray(X[name]) for name in X.columns}
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise UsageError(
            f"X is a frame, or an array of integers with a column per mode; this is one of {array.dtype} with "
            f"{array.ndim} dimensions"
        )
    return {f"mode{mode + 1}": array[:, mode] for mode in range(array.shape[1])}


def _free(name: str, columns: Mapping[str, Any]) -> str:
    while name in columns:
        name += "_"
    return name
