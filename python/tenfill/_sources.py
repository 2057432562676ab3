"""What rows may come from: paths, Arrow streams, frames, columns, and iterators of these."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ._errors import InputError, UsageError

# Rows of NumPy arrays that are handed on at a time.
ROWS = 1 << 17

Column = tuple[str, str, Any]


class Ready:
    """Batches of columns as the native module takes them."""

    def __init__(self, batches: Iterator[list[Column]]) -> None:
        self.batches = batches


def is_path(source: object) -> bool:
    return isinstance(source, (str, os.PathLike))


def paths(source: object) -> list[str | os.PathLike[str]] | None:
    """The paths that a source is, if it is a path or a list of them."""
    if isinstance(source, (str, os.PathLike)):
        return [source]
    if isinstance(source, (list, tuple)) and source and all(is_path(one) for one in source):
        return list(source)
    return None


def rows(source: Any) -> Any:
    """A source as the native module takes it: a stream, or an iterator of streams and columns."""
    if isinstance(source, Ready):
        return source.batches
    if isinstance(source, Mapping):
        return iter(chunks(source))
    if _is_pandas(source):
        return _pandas(source)
    if _is_arrow(source):
        return source
    if hasattr(source, "collect_batches"):  # polars.LazyFrame
        return map(_batch, source.collect_batches())
    if hasattr(source, "scanner"):  # pyarrow.dataset.Dataset
        return source.scanner().to_reader()
    if isinstance(source, np.ndarray) or not isinstance(source, Iterable):
        kind = type(source).__name__
        raise UsageError(
            f"rows cannot be taken from {kind}: give a path, a frame, a mapping of columns, anything with "
            "__arrow_c_stream__, or an iterator of such"
        )
    return map(_batch, source)


def _batch(batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return columns(batch)
    if _is_pandas(batch):
        frame = _pandas(batch)
        return frame if _is_arrow(frame) else columns(_as_mapping(batch))
    if hasattr(batch, "to_pyarrow"):  # datafusion.RecordBatch
        return batch.to_pyarrow()
    if not _is_arrow(batch):
        raise UsageError(f"a batch is a frame or a mapping of columns, not {type(batch).__name__}")
    return batch


def _is_arrow(source: object) -> bool:
    """A stream of batches, or one batch."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def _is_pandas(source: object) -> bool:
    kind = type(source)
    return kind.__module__.split(".")[0] == "pandas" and kind.__name__ == "DataFrame"


def _as_mapping(frame: Any) -> dict[str, Any]:
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"<stream>: two columns have the name '{twice}'", "<stream>")
    return {name: frame.iloc[:, number] for number, name in enumerate(names)}


def _pandas(frame: Any) -> Any:
    # pandas hands Arrow on only where pyarrow is installed, and object columns only where they are of one
    # kind.
    try:
        import pyarrow
    except ImportError:
        return iter(chunks(_as_mapping(frame)))
    _as_mapping(frame)
    try:
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return iter(chunks(_as_mapping(frame)))


def chunks(mapping: Mapping[str, Any]) -> Iterator[list[Column]]:
    """Columns, some rows at a time."""
    if not mapping:
        raise InputError("<stream>: there are no columns", "<stream>")
    arrays = {str(name): _array(column) for name, column in mapping.items()}
    lengths = {name: len(array) if array.ndim == 1 else -1 for name, array in arrays.items()}
    for name, length in lengths.items():
        if length < 0:
            raise UsageError(f"column '{name}' has {arrays[name].ndim} dimensions, not one")
        if length != next(iter(lengths.values())):
            told = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise UsageError(f"the columns have different lengths ({told})")
    length = next(iter(lengths.values()), 0)
    for first in range(0, max(length, 1), ROWS):
        yield columns({name: array[first : first + ROWS] for name, array in arrays.items()})


def _array(column: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(column)
    except ValueError:  # lists of different lengths among the cells
        cells = list(column)
        array = np.empty(len(cells), dtype=object)
        array[:] = cells
        return array


def columns(mapping: Mapping[str, Any]) -> list[Column]:
    """The columns of one batch, in the types that the native module takes."""
    return [(str(name), *_column(str(name), _array(column))) for name, column in mapping.items()]


def _column(name: str, array: np.ndarray[Any, Any]) -> tuple[str, Any]:
    kind = array.dtype.kind
    if kind in "iu":
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise InputError(f"<stream>: column '{name}' holds integers above 2^63", "<stream>")
        return "i8", np.ascontiguousarray(array, dtype=np.int64)
    if kind == "f":
        return "f8", np.ascontiguousarray(array, dtype=np.float64)
    if kind == "M":
        return "us", np.ascontiguousarray(array.astype("datetime64[us]").view(np.int64))
    if kind == "b":
        return "text", ["true" if one else "false" for one in array]
    if kind in "UT":
        return "text", [str(one) for one in array]
    if kind == "O":
        return "text", [_text(name, one) for one in array]
    raise InputError(f"<stream>: column '{name}' has the type {array.dtype}: numbers, text, categories and "
                     "times can be used", "<stream>")


def _text(name: str, one: object) -> str | None:
    if isinstance(one, str):
        return one
    if one is None or one != one:
        return None
    if isinstance(one, (bool, np.bool_)):
        return "true" if one else "false"
    if isinstance(one, np.number):
        return repr(one.item())
    if isinstance(one, (int, float)):
        return repr(one)
    kind = type(one).__name__
    raise InputError(f"<stream>: column '{name}' holds objects of the type {kind}: numbers, text, categories "
                     "and times can be used", "<stream>")
