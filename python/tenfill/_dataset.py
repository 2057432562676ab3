"""A dataset: made from rows, opened, looked at."""

from __future__ import annotations

import html
import inspect
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from . import _native, _sources
from ._errors import InputError, UsageError
from ._options import Path, call
from ._progress import Heard, Progress
from ._table import Stream

STREAM = "<stream>"
# Cells of a dense array that are looked at together.
CELLS = 1 << 20

Split = Literal["train", "validation", "test"]
Source = Any
"""Paths, anything with `__arrow_c_stream__`, a polars LazyFrame, a mapping of columns, or an iterator of these."""


class Dataset:
    """Entries on disk, split and sorted. Only the description is in memory."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self._about = call("inspect", [path], {})
        # Keeps a directory alive that was made for this dataset alone.
        self._home: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def open(cls, path: Path) -> Dataset:
        """Opens a dataset that was written before."""
        return cls(path)

    @classmethod
    def write(
        cls,
        path: Path,
        source: Source,
        *,
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
        validation: Source | None = None,
        test: Source | None = None,
        duplicates: Literal["mean", "first", "last", "sum", "error"] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        header: bool | None = None,
        format: Literal["text", "tns", "parquet", "npy"] | None = None,
        dims: Sequence[int] | None = None,
        zero_based: bool = False,
        skip_bad: int | None = None,
        temp_dir: Path | None = None,
        memory: str | int | None = None,
        threads: int | None = None,
        seed: int | None = None,
        force: bool = False,
        progress: Progress = True,
    ) -> Dataset:
        """Writes rows as a dataset, in one pass within `memory`, whole or not at all.

        The options are those of `tenfill convert`. Rows that are no files are read as they come.
        """
        files, batches = _given(source, validation, test)
        options = {
            "output": path, "value": value, "weights": weights, "bins": bins, "split": split,
            "empty": empty, "missing": missing, "where": where, "wide": wide, "id_columns": id_columns, "column_mode": column_mode,
            "absent": absent, "transform": transform,
            "time_column": time_column, "validation": files.get("validation"), "test": files.get("test"),
            "duplicates": duplicates, "delimiter": delimiter, "encoding": encoding, "header": header, "format": format,
            "dims": None if dims is None else [int(dim) for dim in dims], "zero_based": zero_based,
            "skip_bad": skip_bad, "temp_dir": temp_dir, "memory": memory, "threads": threads, "seed": seed,
            "force": force,
        }  # fmt: skip
        with Heard(progress) as listener:
            call("convert", files["train"], options, batches=batches, modes=modes, progress=listener)
        return cls(path)

    def append(
        self,
        source: Source,
        out: Path | None = None,
        *,
        in_place: bool = False,
        modes: Sequence[str] | None = None,
        validation: Source | None = None,
        test: Source | None = None,
        dims: Sequence[int] | None = None,
        progress: Progress = True,
        **options: Any,
    ) -> Dataset:
        """Writes a dataset with these rows beside its own entries, to `out` or in its own place.

        The options are those of `write`. What is not said follows the dataset: columns, bins, splits, duplicates.
        """
        files, batches = _given(source, validation, test)
        shape = None if dims is None else [int(dim) for dim in dims]
        options |= {"validation": files.get("validation"), "test": files.get("test"), "dims": shape}
        options |= {"out": out, "in_place": in_place}
        with Heard(progress) as listener:
            operands = [self.path, *files["train"]]
            call("append", operands, options, batches=batches, modes=modes, progress=listener)
        return Dataset(self.path if out is None else out)

    def write_entries(
        self,
        out: Path,
        *,
        split: Literal["train", "validation", "test", "all"] | None = None,
        force: bool = False,
    ) -> int:
        """Writes entries with their ids as .csv, .tsv or .parquet: those of test, of another split, or all with a
        column that says which. Returns their number.
        """
        return int(call("entries", [self.path], {"out": out, "split": split, "force": force})["rows"])

    @classmethod
    def from_coo(
        cls,
        coords: Any,
        values: Any,
        shape: Sequence[int] | None = None,
        *,
        path: Path | None = None,
        modes: Sequence[str] | None = None,
        **options: Any,
    ) -> Dataset:
        """From indices, which begin at 0, and values: `coords` has a row per entry, or is a tuple of one array
        per mode. Without a path the dataset lies in a temporary directory, as long as it is in use.
        """
        columns = _coordinates(coords)
        values = np.asarray(values)
        order = len(columns)
        if any(column.dtype.kind not in "iu" for column in columns):
            raise UsageError("`coords` must be integers")
        if values.ndim != 1 or any(column.shape != values.shape for column in columns):
            lengths = ", ".join(str(len(column)) for column in columns)
            raise UsageError(f"`coords` has {order} modes of {lengths} entries, and there are {values.size} values")
        if shape is None:
            if not values.size:
                raise InputError(f"{STREAM}: the stream has no rows", STREAM)
            shape = [int(column.max()) + 1 for column in columns]
        if len(shape) != order:
            raise UsageError(f"`shape` has {len(shape)} dimensions, and `coords` {order} modes")
        names = _names(modes, order)
        table = dict(zip(names, columns)) | {"value": values}
        return cls._of_indices(_sources.chunks(table), names, shape, path, options)

    @classmethod
    def from_scipy(
        cls, matrix: Any, *, path: Path | None = None, modes: Sequence[str] = ("row", "column"), **options: Any
    ) -> Dataset:
        """From a sparse matrix of SciPy: what is stored is observed, zeros included."""
        coo = matrix.tocoo()
        coords = tuple(coo.coords) if hasattr(coo, "coords") else (coo.row, coo.col)
        names = modes if len(modes) == len(coords) else None
        return cls.from_coo(coords, coo.data, coo.shape, path=path, modes=names, **options)

    @classmethod
    def from_dense(
        cls,
        array: Any,
        mask: Any | None = None,
        *,
        path: Path | None = None,
        modes: Sequence[str] | None = None,
        **options: Any,
    ) -> Dataset:
        """From an array with holes: what is NaN is missing, and where `mask` is true, as in `numpy.ma`."""
        if isinstance(array, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(array) if mask is None else np.ma.getmaskarray(array) | mask
            array = array.data
        array = np.asarray(array)
        if array.dtype.kind not in "iufb":
            raise UsageError(f"an array of numbers is needed, not of {array.dtype}")
        if mask is not None and np.shape(mask) != array.shape:
            raise UsageError(f"`mask` has the shape {np.shape(mask)}, the array {array.shape}")
        names = _names(modes, array.ndim)
        chunks = _observed(array, None if mask is None else np.asarray(mask, dtype=bool), names)
        return cls._of_indices(chunks, names, array.shape, path, options)

    @classmethod
    def _of_indices(
        cls,
        chunks: Iterator[Any],
        names: Sequence[str],
        shape: Sequence[int],
        path: Path | None,
        options: Mapping[str, Any],
    ) -> Dataset:
        home = None
        if path is None:
            home = tempfile.TemporaryDirectory(prefix="tenfill-")
            path = os.path.join(home.name, "data.tenfill")
        dataset = cls.write(
            path, _sources.Ready(chunks), modes=names, value="value", dims=shape, zero_based=True, **options
        )
        dataset._home = home
        return dataset

    @property
    def modes(self) -> list[str]:
        """The names of the modes."""
        return list(self._about["modes"])

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of indices of each mode."""
        return tuple(self._about["dims"])

    @property
    def entries(self) -> dict[str, int]:
        """The number of entries of each split."""
        return dict(self._about["entries"])

    @property
    def nnz(self) -> int:
        """The number of entries of all splits."""
        return sum(self.entries.values())

    def memory_needed(self, rank: int | Sequence[int], *, threads: int | None = None) -> int:
        """The bytes that `complete` would use with this rank, where it is not given less."""
        return int(call("inspect", [self.path], {"rank": rank, "threads": threads})["memory_bytes"])

    def to_batches(self, split: Split = "train") -> Stream:
        """The entries of a split with their ids, a block at a time; of bins, where they begin."""
        return Stream(_native.entries(self.path, split))

    def __repr__(self) -> str:
        shape = " x ".join(f"{dim:,} {mode}" for dim, mode in zip(self.shape, self.modes))
        return f"Dataset({self.path!r}: {shape}, {self.nnz:,} entries)"

    def _repr_html_(self) -> str:
        rows = [("modes", " x ".join(f"{dim:,} {mode}" for dim, mode in zip(self.shape, self.modes)))]
        rows += [(split, f"{count:,} entries") for split, count in self.entries.items()]
        rows.append(("bytes per entry", f"{self._about['bytes_per_entry']:.2f}"))
        body = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in rows)
        return f"<table><caption>{html.escape(self.path)}</caption>{body}</table>"


def _like_write() -> inspect.Signature:
    """What `append` takes: all that `write` does, and what is its own."""
    own, write = (inspect.signature(function).parameters for function in (Dataset.append, Dataset.write))
    ours = [parameter for parameter in own.values() if parameter.kind is not parameter.VAR_KEYWORD]
    more = [parameter for name, parameter in write.items() if name not in (*own, "path")]
    return inspect.Signature([*ours, *more], return_annotation="Dataset")


Dataset.append.__signature__ = _like_write()  # type: ignore[attr-defined]


def _given(
    source: Source, validation: Source | None, test: Source | None
) -> tuple[dict[str, list[Any]], list[tuple[str, Any]]]:
    """The files of every split, and the rows that are no files."""
    batches: list[tuple[str, Any]] = []
    files: dict[str, list[Any]] = {}
    for name, rows in (("train", source), ("validation", validation), ("test", test)):
        if rows is None:
            continue
        files[name] = _sources.paths(rows) or [STREAM]
        if files[name] == [STREAM]:
            batches.append((name, _sources.rows(rows)))
    return files, batches


def _names(modes: Sequence[str] | None, order: int) -> list[str]:
    names = [f"mode{number + 1}" for number in range(order)] if modes is None else [str(mode) for mode in modes]
    if len(names) != order:
        raise UsageError(f"`modes` has {len(names)} names for {order} modes")
    return names


def _coordinates(coords: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(coords, tuple):
        return [np.asarray(column) for column in coords]
    array = np.asarray(coords)
    if array.ndim != 2:
        raise UsageError(f"`coords` has {array.ndim} dimensions: give a row per entry, or a tuple of arrays")
    return [array[:, mode] for mode in range(array.shape[1])]


def _observed(
    array: np.ndarray[Any, Any], mask: np.ndarray[Any, Any] | None, names: Sequence[str]
) -> Iterator[list[_sources.Column]]:
    """The entries of an array, some slices at a time."""
    slices = max(1, CELLS // max(1, array[:1].size))
    for first in range(0, max(1, len(array)), slices):
        part = array[first : first + slices]
        seen = ~np.isnan(part) if part.dtype.kind == "f" else np.ones(part.shape, dtype=bool)
        if mask is not None:
            seen &= ~mask[first : first + slices]
        at = list(np.nonzero(seen))
        at[0] = at[0] + first
        yield _sources.columns(dict(zip(names, at)) | {"value": part[seen].astype(np.float64)})
