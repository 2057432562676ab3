"""A table or an array, given back with its holes filled."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ._frames import as_file
from ._options import Path, call
from ._progress import Heard, Progress
from ._run import Callback, Run, _Watcher


@dataclasses.dataclass(frozen=True)
class Filled:
    """What was filled."""

    out: str
    rows: int
    """Rows of the table; cells of an array."""
    filled: int
    """Values that were missing and are there now."""
    added: int
    """Rows that were added by `all_cells`."""
    unknown: int
    """Values by biases or the mean alone, because an id has no value."""
    sd: bool
    """Whether there are standard deviations of what was filled."""
    held_out: Mapping[str, Any] | None
    """The error on values that were held out (`rmse`), beside that of the mean, of biases alone and of interpolation."""
    fields: Mapping[str, Any] = dataclasses.field(repr=False, default_factory=dict)
    """All that was found."""


def fill(
    source: Any,
    *,
    out: Path,
    run: Run | Path | None = None,
    keep: Path | None = None,
    all_cells: bool = False,
    sd: bool = False,
    rank: int | Sequence[int] | Literal["auto"] | None = None,
    max_iterations: int | None = None,
    patience: int | None = None,
    seed: int | None = None,
    memory: str | int | None = None,
    threads: int | None = None,
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
) -> Filled:
    """Writes a table (a path, or a frame with nulls or NaN) back with its holes filled.

    The options are those of `tenfill fill`; a path may also be that of a `.npy` array. With `sd` a long table has a
    column of standard deviations, and a wide one or an array a second file beside it (`out.sd.npy`).
    """
    options: dict[str, object] = {
        "output": out, "run": run.path if isinstance(run, Run) else run, "keep": keep, "all_cells": all_cells, "sd": sd,
        "rank": rank, "max_iterations": max_iterations, "patience": patience, "seed": seed, "memory": memory,
        "threads": threads, "force": force, "value": value, "weights": weights, "empty": empty, "missing": missing, "where": where,
        "wide": wide, "id_columns": id_columns, "column_mode": column_mode,
        "absent": absent, "transform": transform, "bins": bins, "split": split,
        "time_column": time_column, "validation": validation, "test": test, "duplicates": duplicates,
        "delimiter": delimiter, "encoding": encoding, "header": header, "format": format, "dims": dims, "zero_based": zero_based,
        "skip_bad": skip_bad, "temp_dir": temp_dir,
    }  # fmt: skip
    watcher = _Watcher(list(callbacks))
    try:
        with Heard(progress) as listener, as_file(source) as place:
            line = watcher if watcher.callbacks else None
            found = call("fill", [place], options, modes=modes, line=line, progress=listener)
    finally:
        watcher.finish()
    known: dict[str, Any] = {name: found[name] for name in ("rows", "filled", "added", "unknown", "sd", "held_out")}
    return Filled(out=os.fspath(out), **known, fields=found)
