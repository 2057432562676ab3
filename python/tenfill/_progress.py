"""What is heard of long work: a bar, lines of a log, or nothing."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Literal

from ._errors import in_keywords

Progress = bool | Literal["log"] | None
Listener = Callable[[str, str, str, int], None]

logger = logging.getLogger("tenfill")


def _size(count: int, unit: str) -> str:
    if unit != "bytes":
        return f"{count:,}"
    number = float(count)
    for name in ("B", "kB", "MB", "GB"):
        if number < 1000 or name == "GB":
            return f"{number:.0f} {name}" if name == "B" else f"{number:.1f} {name}"
        number /= 1000
    return str(count)


class Bar:
    """A line on standard error that is written over, and messages above it."""

    def __init__(self) -> None:
        self.name, self.unit, self.total, self.shown = "", "", 0, 0

    def __call__(self, event: str, words: str, unit: str, count: int) -> None:
        if event == "stage":
            self.name, self.unit, self.total = words, unit, count
            self.draw(0, "")
        elif event == "advance":
            self.draw(count, words)
        elif event == "say":
            logger.info(in_keywords(words))
            self.clear()
            print(in_keywords(words), file=sys.stderr)
        else:
            logger.debug(in_keywords(words))

    def draw(self, done: int, note: str) -> None:
        parts = [f"{self.name:8}"]
        if self.total:
            full = min(24, 24 * done // self.total)
            parts.append(f"[{'=' * full:24}]")
            parts.append(f"{_size(done, self.unit)} of {_size(self.total, self.unit)}")
        line = "  ".join([*parts, note])[:100]
        sys.stderr.write("\r" + line.ljust(self.shown))
        sys.stderr.flush()
        self.shown = len(line)

    def clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r" + " " * self.shown + "\r")
            sys.stderr.flush()
            self.shown = 0


def _log(event: str, words: str, unit: str, count: int) -> None:
    if event == "stage":
        logger.info("%s ...", words)
    elif event == "say":
        logger.info(in_keywords(words))
    elif event == "detail":
        logger.debug(in_keywords(words))


def _shows() -> bool:
    return "ipykernel" in sys.modules or (hasattr(sys.stderr, "isatty") and sys.stderr.isatty())


class Heard:
    """The listener that `progress` asks for; a bar is removed in the end."""

    def __init__(self, progress: Progress) -> None:
        if progress not in (True, False, None, "log"):
            raise ValueError("`progress` is True, False or 'log'")
        shown = progress is not False and progress != "log" and _shows()
        self.bar = Bar() if shown else None
        self.listener: Listener | None = self.bar or (None if progress is False else _log)

    def __enter__(self) -> Listener | None:
        return self.listener

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.clear()
