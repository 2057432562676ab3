"""Frames for commands that read a file, and read it twice."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from . import _native, _sources
from ._errors import Error


@contextlib.contextmanager
def as_file(source: Any) -> Iterator[str]:
    """A path as it is; anything else as a Parquet file that is gone afterwards."""
    if isinstance(source, (str, os.PathLike)):
        yield os.fspath(source)
        return
    with tempfile.TemporaryDirectory(prefix="tenfill-") as home:
        place = os.path.join(home, "frame.parquet")
        try:
            _native.write_table(_sources.rows(source), place, False)
            yield place
        except Error as error:
            # The file is ours: what is wrong is wrong with the frame.
            if place not in str(error):
                raise
            told = str(error).replace(place, "<stream>")
            raise type(error)(told, "<stream>", error.line) from None
