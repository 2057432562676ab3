"""A run: a dataset completed, watched, stopped, gone on with."""

from __future__ import annotations

import dataclasses
import html
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from . import _native
from ._dataset import Dataset, Source
from ._frames import as_file
from ._model import Model, load
from ._options import Path, call, check_removed
from ._plot import of_run
from ._progress import Heard, Progress
from ._table import Table


@dataclasses.dataclass(frozen=True)
class LogLine:
    """A line of a run's log: what an iteration has done."""

    iteration: int
    """0 for the start."""
    passes: int
    """Passes over the train entries up to here."""
    cost: float
    """The cost at this iterate."""
    train_mse: float
    train_mae: float | None
    """None of a sweep, like `gradient_norm` and `step`."""
    train_rmse: float
    validation_mse: float | None
    validation_rmse: float | None
    validation_mae: float | None
    gradient_norm: float | None
    step: float | None
    rank: list[int]
    penalty: float
    trial: Any
    """What is being tried, where validation decides."""
    seconds: float
    """Wall time of the run so far, restarts included."""
    cpu_seconds: float
    entries_per_second: float
    bytes_read: int
    peak_rss_bytes: int
    fields: Mapping[str, Any] = dataclasses.field(repr=False, default_factory=dict)
    """All that the line says."""


_FIELDS = [field.name for field in dataclasses.fields(LogLine) if field.name != "fields"]

Callback = Callable[[LogLine], bool | None]
"""Is called with each line of the log; what returns True stops the run, after a checkpoint."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The errors of a model on some entries."""

    mse: float | None
    rmse: float | None
    mae: float | None
    r2: float | None
    mean_rmse: float | None
    """The RMSE of the mean of the train values."""
    biases_rmse: float | None
    """That of biases alone: a mean and a number per id, without a tensor."""
    entries: int
    fallback: int
    """Of these, scored by what is known of the other ids, because an id has no train entries."""
    unscored: int
    """Left out, because an id is not known and the model has no biases."""
    coverage: Any
    """The share of the values that intervals of 50, 80 and 95 % cover, where the model knows how sure it is."""
    fields: Mapping[str, Any] = dataclasses.field(repr=False, default_factory=dict)
    """All that was found, with ranking metrics where they were asked for."""


class Run:
    """A run on disk: configuration, log, checkpoints, and the best model so far."""

    def __init__(self, path: Path, outcome: Mapping[str, Any] | None = None) -> None:
        self.path = os.fspath(path)
        self.outcome: Mapping[str, Any] | None = outcome
        """How it ended, where it has just been completed or gone on with."""
        self._model: Model | None = None
        self._keeps: object = None

    @property
    def log(self) -> Table:
        """The log, a row per iteration."""
        return Table(_native.log(self.path))

    @property
    def model(self) -> Model:
        """The best model so far; read once."""
        if self._model is None:
            self._model = load(self)
        return self._model

    def resume(self, **options: Any) -> Run:
        """Goes on from the newest good checkpoint, with the options of `tenfill.resume`."""
        return resume(self, **options)

    def evaluate(
        self,
        on: Literal["test", "validation", "train"] | Source = "test",
        *,
        encoding: str | None = None,
        top: int | None = None,
        rank_mode: str | None = None,
        for_mode: str | None = None,
        relevant: float | None = None,
        given: Mapping[str, object] | None = None,
        threads: int | None = None,
    ) -> Evaluation:
        """The errors on a split, or on other entries: a path or a frame. With `top` also the ranking's."""
        options = {
            "top": top, "rank_mode": rank_mode, "for_mode": for_mode, "relevant": relevant, "given": given,
            "encoding": encoding, "threads": threads,
        }  # fmt: skip
        with as_file(on) as place:
            found = call("evaluate", [self.path], {"on": place, **options})
        names = [field.name for field in dataclasses.fields(Evaluation) if field.name != "fields"]
        known: dict[str, Any] = {name: found.get(name) for name in names}
        return Evaluation(**known, fields=found)

    def report(self, out: Path, *, compare: Sequence[Path] = (), force: bool = False) -> None:
        """Writes a page that shows the run, beside others where they are given."""
        call("report", [self.path, *compare], {"output": out, "force": force})

    def plot(self, ax: Any | None = None) -> Any:
        """Draws the errors over the iterations with matplotlib; returns the axes."""
        if ax is None:
            from matplotlib import pyplot

            axes: Any = pyplot.figure().add_subplot()
            return self.plot(axes)
        log = self.log
        for name, label in (("train_rmse", "train"), ("validation_rmse", "validation")):
            numbers = log[name]
            if numbers.dtype.kind == "f" and (numbers == numbers).any():
                ax.plot(log["iteration"], numbers, label=label)
        ax.set_xlabel("iteration")
        ax.set_ylabel("RMSE")
        ax.legend()
        return ax

    def __repr__(self) -> str:
        told = self.outcome
        if told is None:
            return f"Run({self.path!r})"
        error = told["validation_mse"] if told["validation_mse"] is not None else told["train_mse"]
        split = "validation" if told["validation_mse"] is not None else "train"
        rank = ",".join(str(rank) for rank in told["rank"])
        return (
            f"Run({self.path!r}: rank {rank}, {told['iterations']} iterations, stopped by "
            f"{told['stopped_by']}, {split} RMSE {error**0.5:.6g})"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>" + of_run(self.path)


class _Watcher:
    """Hands lines of the log to callbacks."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks

    def __call__(self, text: str) -> bool:
        fields = json.loads(text)
        line = LogLine(**{name: fields.get(name) for name in _FIELDS}, fields=fields)
        # All of them hear every line, also behind one that stops the run.
        return any([callback(line) is True for callback in self.callbacks])

    def finish(self) -> None:
        for callback in self.callbacks:
            finish = getattr(callback, "finish", None)
            if finish is not None:
                finish()


OnInterrupt = Literal["raise", "return"]


def _run(
    command: str,
    operand: Path,
    options: Mapping[str, object],
    out: Path,
    callbacks: Sequence[Callback],
    progress: Progress,
    on_interrupt: OnInterrupt,
    modes: Sequence[str] | None = None,
) -> Run:
    if on_interrupt not in ("raise", "return"):
        raise ValueError("`on_interrupt` is 'raise' or 'return'")
    watcher = _Watcher(list(callbacks))
    keep = on_interrupt == "return"
    try:
        with Heard(progress) as listener:
            line = watcher if watcher.callbacks else None
            outcome = call(command, [operand], options, modes=modes, line=line, progress=listener, keep=keep)
    finally:
        watcher.finish()
    return Run(out, outcome)


def complete(
    dataset: Dataset | Path,
    *,
    out: Path,
    rank: int | Sequence[int] | Literal["auto"] = "auto",
    tolerance: float | None = None,
    relative_tolerance: float | None = None,
    max_iterations: int | None = None,
    patience: int | None = None,
    gradient_tolerance: float | None = None,
    init: str | Path | Run | None = None,
    seed: int | None = None,
    algorithm: Literal["auto", "cg", "sd", "sgd", "geomcg"] | None = None,
    beta: Literal["hs", "pr", "hs-dy"] | None = None,
    step: Literal["linearised", "exact"] | None = None,
    metric: Literal["damped", "preconditioned", "euclidean"] | None = None,
    precision: Literal["mixed", "f64"] | None = None,
    lanes: int | None = None,
    bias: Literal["auto", "none", "mean", "modes"] | None = None,
    bias_time: str | None = None,
    penalty: float | Literal["auto"] | None = None,
    penalty_kind: Literal["nuclear", "log", "frobenius"] | None = None,
    grow: bool | None = None,
    refine: bool | None = None,
    refit: bool | None = None,
    clip: bool | None = None,
    checkpoint_every: int | str | None = None,
    memory: str | int | None = None,
    threads: int | None = None,
    cache: Path | None = None,
    force: bool = False,
    modes: Sequence[str] | None = None,
    value: str | None = None,
    weights: str | None = None,
    empty: Literal["missing", "error"] | None = None,
    missing: str | float | Iterable[str | float] | None = None,
    where: str | Iterable[str] | None = None,
    wide: bool = False,
    id_columns: Sequence[str] | None = None,
    column_mode: str | None = None,
    absent: float | None = None,
    transform: Literal["log1p", "log", "logit"] | None = None,
    bins: Mapping[str, str | float] | None = None,
    split: str | None = None,
    time_column: str | None = None,
    validation: Path | Sequence[Path] | None = None,
    test: Path | Sequence[Path] | None = None,
    duplicates: Literal["mean", "first", "last", "sum", "error"] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    format: Literal["text", "tns", "parquet", "npy"] | None = None,
    dims: Sequence[int] | None = None,
    zero_based: bool = False,
    skip_bad: int | None = None,
    temp_dir: Path | None = None,
    callbacks: Sequence[Callback] = (),
    progress: Progress = True,
    on_interrupt: OnInterrupt = "raise",
) -> Run:
    """Fits a Tucker model to the train entries of a dataset, which are streamed from disk.

    The options are those of `tenfill complete`; those from `modes` on are for a raw file, which is converted
    first. Ctrl-C ends at once, with a checkpoint of the last whole iteration: then `KeyboardInterrupt` is raised, or
    with `on_interrupt="return"` the run is returned as far as it has come.
    """
    check_removed(grow=grow, refine=refine)
    options: dict[str, object] = {
        "rank": rank, "output": out, "tolerance": tolerance, "relative_tolerance": relative_tolerance,
        "max_iterations": max_iterations, "patience": patience, "gradient_tolerance": gradient_tolerance,
        "init": init.path if isinstance(init, Run) else init, "seed": seed, "algorithm": algorithm,
        "beta": beta, "step": step, "metric": metric, "precision": precision, "lanes": lanes, "bias": bias,
        "bias_time": bias_time, "penalty": penalty, "penalty_kind": penalty_kind, "refit": refit, "clip": clip,
        "checkpoint_every": checkpoint_every, "memory": memory,
        "threads": threads, "cache": cache, "force": force, "value": value, "weights": weights, "bins": bins, "split": split,
        "empty": empty, "missing": missing, "where": where, "wide": wide, "id_columns": id_columns, "column_mode": column_mode,
        "absent": absent, "transform": transform,
        "time_column": time_column, "validation": validation, "test": test, "duplicates": duplicates,
        "delimiter": delimiter, "encoding": encoding, "header": header, "format": format, "dims": dims, "zero_based": zero_based,
        "skip_bad": skip_bad, "temp_dir": temp_dir,
    }  # fmt: skip
    place = dataset.path if isinstance(dataset, Dataset) else dataset
    run = _run("complete", place, options, out, callbacks, progress, on_interrupt, modes)
    # A dataset in a temporary directory stays as long as its run is in use.
    run._keeps = dataset
    return run


def resume(
    run: Run | Path,
    *,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    relative_tolerance: float | None = None,
    patience: int | None = None,
    checkpoint_every: int | str | None = None,
    memory: str | int | None = None,
    threads: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: Progress = True,
    on_interrupt: OnInterrupt = "raise",
) -> Run:
    """Goes on from the newest good checkpoint, to the same bits as a run that was never interrupted."""
    options: dict[str, object] = {
        "max_iterations": max_iterations, "tolerance": tolerance, "relative_tolerance": relative_tolerance,
        "patience": patience, "checkpoint_every": checkpoint_every, "memory": memory, "threads": threads,
    }  # fmt: skip
    path = run.path if isinstance(run, Run) else run
    resumed = _run("resume", path, options, path, callbacks, progress, on_interrupt)
    resumed._keeps = run._keeps if isinstance(run, Run) else None
    return resumed
