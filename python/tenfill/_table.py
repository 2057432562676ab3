"""Tables and streams that go out."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _native

Array = np.ndarray[Any, Any]


class Table:
    """Rows in memory, in Arrow: `to_polars()`, `to_pandas()`, `to_arrow()`, or one column as `table["name"]`.

    Anything that reads `__arrow_c_stream__` takes it as it is, without a copy.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self._native.num_rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.column_names

    def __getitem__(self, name: str) -> Array:
        names = self.columns
        if name not in names:
            raise KeyError(f"there is no column '{name}': the columns are {', '.join(names)}")
        kind, data = self._native.column(names.index(name))
        if kind == "text":
            array = np.empty(len(data), dtype=object)
            array[:] = data
            return array
        return np.frombuffer(data, dtype=kind)

    def to_numpy(self) -> dict[str, Array]:
        """A NumPy array per column: numbers as they are, all else as text."""
        return {name: self[name] for name in self.columns}

    def to_arrow(self) -> Any:
        """As a `pyarrow.Table`."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> Any:
        """As a `polars.DataFrame`."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """As a `pandas.DataFrame`."""
        import pandas

        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            return pandas.DataFrame(self.to_numpy())

    def write(self, path: str, *, force: bool = False) -> None:
        """Writes it as .parquet, .csv or .tsv, whole or not at all."""
        _native.write_table(self._native, path, force)

    def __repr__(self) -> str:
        rows = self._rows(10)
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.columns))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
        more = [f"... {len(self):,} rows"] if len(self) > 10 else []
        return "\n".join(lines + more)

    def _repr_html_(self) -> str:
        first, *rest = self._rows(10)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in first)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rest
        )
        return f"<table><tr>{head}</tr>{body}</table><p>{len(self):,} rows</p>"

    def _rows(self, most: int) -> list[list[str]]:
        head = Table(self._native.head(most))
        arrays = [[_cell(cell) for cell in head[name]] for name in self.columns]
        return [self.columns, *(list(row) for row in zip(*arrays))]


def _cell(cell: object) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


class Stream:
    """Rows that come a batch at a time, once: read by anything that takes `__arrow_c_stream__`, or by `for`."""

    def __init__(self, native: _native.Stream) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Table]:
        return map(Table, self._native)

    def to_arrow(self) -> Any:
        """What is left as a `pyarrow.RecordBatchReader`, which reads as it is read."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)
