"""A model in memory, asked by the user's own ids."""

from __future__ import annotations

import datetime
import html
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from . import _native, _sources
from ._errors import UsageError
from ._frames import as_file
from ._options import Path, call
from ._plot import of_run
from ._progress import Heard, Progress
from ._table import Array, Stream, Table


class Prediction(float):
    """The value that a model expects, a float; `known` is False where it comes from biases alone. `sd` is the
    standard deviation of an observation about it, or None where the model does not know how sure it is.
    """

    known: bool
    sd: float | None

    def __new__(cls, value: float, known: bool, sd: float | None = None) -> Prediction:
        made = super().__new__(cls, value)
        made.known = known
        made.sd = sd
        return made

    def __getnewargs__(self) -> tuple[float, bool, float | None]:  # type: ignore[override]
        return (float(self), self.known, self.sd)


class _PerMode(Mapping[str, Array]):
    """An array per mode, made when it is asked for."""

    def __init__(self, names: Sequence[str], of: Any) -> None:
        self._names, self._of = list(names), of

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(f"there is no mode '{name}': the modes are {', '.join(self._names)}")
        found: Array = self._of(self._names.index(name))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _id(value: object) -> str:
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    value = value.item() if isinstance(value, np.generic) else value
    # A column of integers with holes is one of floats in pandas.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class Model:
    """A Tucker model with its biases, and the ids that its indices stand for."""

    def __init__(self, run: Path) -> None:
        self.path = os.fspath(run)
        self._native = _native.Model(run)
        self._about: dict[str, Any] = json.loads(self._native.about())
        self._keeps: object = None

    def __reduce__(self) -> tuple[object, ...]:
        return (load, (os.path.abspath(self.path),))

    @property
    def modes(self) -> list[str]:
        """The names of the modes."""
        return list(self._about["mode_names"])

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ids of each mode."""
        return tuple(mode["dim"] for mode in self._about["modes"])

    @property
    def rank(self) -> tuple[int, ...]:
        """The rank of each mode."""
        return tuple(self._about["rank"])

    @property
    def mean(self) -> float:
        """The mean of the train values, which biases are added to."""
        return float(self._about["mean"])

    @property
    def core(self) -> Array:
        """The core: its shape is ``rank``. Models of four modes and more may have one that is nearly all zeros:
        ``core_entries`` has the others, where an array of all of it would be too large."""
        numbers = np.frombuffer(self._native.core(), dtype="f8")
        if self._native.core_places() is None:
            return numbers.reshape(self.rank)
        places, numbers = self.core_entries
        core = np.zeros(self.rank)
        core[tuple(places.T)] = numbers
        return core

    @property
    def core_entries(self) -> tuple[Array, Array]:
        """Indices, a row each, and values of the numbers of the core that are not zero."""
        numbers = np.frombuffer(self._native.core(), dtype="f8")
        places = self._native.core_places()
        if places is None:
            core = numbers.reshape(self.rank)
            found = np.argwhere(core)
            return found, core[tuple(found.T)]
        return np.frombuffer(places, dtype="f8").astype("i8").reshape(-1, len(self.rank)), numbers

    @property
    def factors(self) -> Mapping[str, Array]:
        """The factor of each mode: a row per id."""
        shapes = list(zip(self.shape, self.rank))
        return _PerMode(
            self.modes, lambda mode: np.frombuffer(self._native.factor(mode), dtype="f8").reshape(shapes[mode])
        )

    @property
    def biases(self) -> Mapping[str, Array]:
        """The bias of each id; zeros where a mode has none."""

        def of(mode: int) -> Array:
            found = self._native.bias(mode)
            return np.zeros(self.shape[mode]) if found is None else np.frombuffer(found, dtype="f8")

        return _PerMode(self.modes, of)

    @property
    def ids(self) -> Mapping[str, Array]:
        """The ids of each mode, in the order of the factor's rows; of bins, where they begin."""
        return _PerMode(self.modes, lambda mode: Table(self._native.ids(mode))[self.modes[mode]])

    def id_table(self, mode: str) -> Table:
        """The ids of a mode and whether each has train entries, in Arrow."""
        if mode not in self.modes:
            raise UsageError(f"there is no mode '{mode}': the modes are {', '.join(self.modes)}")
        return Table(self._native.ids(self.modes.index(mode)))

    def predict_one(self, **ids: object) -> Prediction:
        """The value at one entry: an id per mode, a time for bins; "latest" is the last bin, "average" the mean
        over a mode. `known` is False where the model has never met an id; `sd` is the standard deviation of an
        observation, where the model was fitted by sweeps.
        """
        value, known, sd = self._native.predict_one(ids)
        return Prediction(value, known, sd)

    def predict(
        self,
        source: Any,
        *,
        modes: Sequence[str] | None = None,
        given: Mapping[str, object] | None = None,
        strict: bool = False,
        sd: bool = False,
    ) -> Table:
        """Every row of a frame with the columns `prediction` and `known` behind it.

        `modes` names the columns where they have other names; `given` says what is the same for all rows.
        With `strict`, an id that the model does not know is an error. With `sd` there is a column of that name, the
        standard deviation of an observation about the prediction; models that were fitted by sweeps know it.
        """
        rows, given_pairs = self._rows(source), _given(given)
        return Table(self._native.predict(rows, modes=modes, given=given_pairs, strict=strict, sd=sd))

    def predict_stream(
        self,
        source: Any,
        *,
        modes: Sequence[str] | None = None,
        given: Mapping[str, object] | None = None,
        strict: bool = False,
        sd: bool = False,
    ) -> Stream:
        """The same for any number of rows: the source is read as the answers are."""
        rows, given_pairs = self._rows(source), _given(given)
        return Stream(self._native.predict_stream(rows, modes=modes, given=given_pairs, strict=strict, sd=sd))

    def _rows(self, source: Any) -> Any:
        if isinstance(source, np.ndarray):
            # A column per mode, in the model's order.
            if source.ndim != 2 or source.shape[1] != len(self.modes):
                raise UsageError(f"an array of a column per mode is needed ({', '.join(self.modes)})")
            source = {mode: source[:, number] for number, mode in enumerate(self.modes)}
        if _sources.paths(source) is not None:
            raise UsageError("`predict` takes frames and streams: for files there is the command `tenfill predict`")
        return _sources.rows(source)

    def recommend(
        self,
        given: Mapping[str, object],
        *,
        rank_mode: str,
        top: int | None = None,
        seen: Literal["all", "train"] = "all",
        include_seen: bool = False,
        strict: bool = False,
        sd: bool = False,
        explore: float | None = None,
        progress: Progress = False,
    ) -> Table:
        """The best ids of a mode for what is given of others: an id each, or lists of ids of one length, a
        question per place. What was observed with it is left out; modes that are not given are averaged. The best 10 where
        `top` does not say how many, or all where there are fewer.

        With `sd` there is a column of that name, the standard deviation of an observation. `explore` ranks by an upper
        bound, so many standard deviations of what is said above it, in a column `bound`.
        """
        lists = {
            mode: [_id(one) for one in ids] if isinstance(ids, Iterable) and _is_list(ids) else None
            for mode, ids in given.items()
        }
        lengths = {len(ids) for ids in lists.values() if ids is not None}
        if not given:
            raise UsageError("for whom? give a mode and an id, or use `recommend_all` for every id")
        if len(lengths) > 1:
            raise UsageError("the lists of ids have different lengths")
        count = lengths.pop() if lengths else 1
        columns = [ids if ids is not None else [_id(given[mode])] * count for mode, ids in lists.items()]
        splits = [] if include_seen else ["train"] if seen == "train" else ["train", "validation", "test"]
        with Heard(progress) as listener:
            found = self._native.recommend(
                list(given), list(zip(*columns)), rank_mode, top, splits=splits, strict=strict, sd=sd, explore=explore,
                progress=listener,
            )  # fmt: skip
        return Table(found)

    def recommend_all(
        self,
        *,
        rank_mode: str,
        out: Path,
        all: str | Literal[True] = True,
        given: Mapping[str, object] | None = None,
        top: int | None = None,
        seen: Literal["all", "train"] | None = None,
        include_seen: bool = False,
        strict: bool = False,
        sd: bool = False,
        explore: float | None = None,
        threads: int | None = None,
        force: bool = False,
        progress: Progress = True,
    ) -> dict[str, Any]:
        """The best ids of a mode for every id of another (`all`, where it is not the only one left), streamed to
        a file: .parquet, .csv or .tsv. Returns what was written.
        """
        options = {
            "rank_mode": rank_mode, "output": out, "all": all, "given": dict(_given(given)), "top": top,
            "seen": seen, "include_seen": include_seen, "strict": strict, "sd": sd,
            "explore": explore, "threads": threads, "force": force,
        }  # fmt: skip
        with Heard(progress) as listener:
            return call("recommend", [self.path], options, progress=listener)

    def fold_in(
        self,
        source: Any,
        *,
        out: Path,
        mode: str | None = None,
        ridge: float | None = None,
        encoding: str | None = None,
        memory: str | int | None = None,
        threads: int | None = None,
        force: bool = False,
        progress: Progress = True,
    ) -> Model:
        """A model that knows more ids, from their entries alone; written as the run `out`."""
        options = {
            "output": out, "mode": mode, "ridge": ridge, "encoding": encoding, "memory": memory,
            "threads": threads, "force": force,
        }  # fmt: skip
        with as_file(source) as place, Heard(progress) as listener:
            call("fold-in", [self.path, place], options, progress=listener)
        return load(out)

    def to_tensorly(self) -> Any:
        """The tensor without its biases, as a `TuckerTensor` of tensorly."""
        from tensorly.tucker_tensor import TuckerTensor

        return TuckerTensor((self.core, [self.factors[mode] for mode in self.modes]))

    def export(
        self, out: Path, *, format: Literal["parquet", "npy", "csv"] | None = None, force: bool = False
    ) -> list[str]:
        """Writes factors with their ids, biases and the core for other programs; returns the files."""
        done = call("export", [self.path], {"output": out, "format": format, "force": force})
        return list(done["files"])

    def _error(self) -> tuple[str, float]:
        validation = self._about["validation_mse"]
        if validation is not None:
            return "validation", validation**0.5
        return "train", self._about["train_mse"] ** 0.5

    def __repr__(self) -> str:
        shape = " x ".join(f"{dim:,} {mode}" for dim, mode in zip(self.shape, self.modes))
        rank = ",".join(str(rank) for rank in self.rank)
        split, rmse = self._error()
        return f"Model({self.path!r}: {shape}, rank {rank}, {split} RMSE {rmse:.6g})"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>" + of_run(self.path)


def _is_list(ids: object) -> bool:
    return not isinstance(ids, (str, bytes, Mapping)) and hasattr(ids, "__len__")


def _given(given: Mapping[str, object] | None) -> list[tuple[str, str]]:
    return [(str(mode), _id(value)) for mode, value in (given or {}).items()]


def load(run: Any) -> Model:
    """The best model of a run: by its path, or the `Run` itself."""
    model = Model(getattr(run, "path", run))
    # A dataset in a temporary directory stays as long as its model is in use.
    model._keeps = getattr(run, "_keeps", None)
    return model
