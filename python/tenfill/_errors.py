"""What can go wrong. The sentences are those of the command, with its options as keywords."""

from __future__ import annotations

import re

from . import _native


class Error(Exception):
    """Something that tenfill cannot do. `path` and `line` say where, if it is about a file."""

    def __init__(self, message: str, path: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.path, self.line))


class InputError(Error, ValueError):
    """Data that cannot be used: the file or stream, and the line or row, are in `path` and `line`."""


class FormatError(Error):
    """A file of tenfill's own that is damaged, or was written by a later version."""


class MemoryRefused(Error):
    """The memory budget does not suffice; the sentence says what would."""


class UsageError(Error, ValueError):
    """A request that contradicts itself, the data, or what lies on disk already."""


class InternalError(Error):
    """A mistake in tenfill itself."""


KINDS: dict[str, type[Error]] = {
    "error": Error,
    "input": InputError,
    "format": FormatError,
    "memory": MemoryRefused,
    "usage": UsageError,
    "internal": InternalError,
}

# Where a keyword is spelled in another way than its flag.
KEYWORDS = {"output": "out", "bin": "bins", "for": "for_mode"}

_FLAG = re.compile(r"'?--([a-z][a-z-]*)(?: <[^>]*>|=<[^>]*>)?'?")
_FIELD = re.compile(r"`([a-z][a-z_]*)`")


def _flags() -> set[str]:
    return {flag for command in _native.commands() for flag in _native.flags(command)}


def keyword(flag: str) -> str:
    """The keyword for a flag: `max_iterations` for `max-iterations`, `clip=False` for `no-clip`."""
    if flag.startswith("no-") and flag[3:] in _flags():
        return flag[3:].replace("-", "_") + "=False"
    return KEYWORDS.get(flag, flag.replace("-", "_"))


def in_keywords(sentence: str) -> str:
    """A sentence of the command, with its options as keywords."""
    known = _flags()

    def flag(match: re.Match[str]) -> str:
        return f"`{keyword(match[1])}`" if match[1] in known else match[0]

    def field(match: re.Match[str]) -> str:
        name = match[1].replace("_", "-")
        return f"`{keyword(name)}`" if name in known else match[0]

    sentence = _FIELD.sub(field, _FLAG.sub(flag, sentence))
    return re.sub(r"(?<=\s)-o(?=[\s,.:]|$)", "`out`", sentence)


def build(kind: str, message: str, path: str | None, line: int | None) -> Error:
    """The exception of a kind; called by the native module."""
    if kind == "internal":
        message = (
            f"tenfill has made a mistake: {message}. Please report it with this sentence, the call, and "
            f"the version ({_native.__version__}); files that were written before are whole."
        )
    return KINDS[kind](in_keywords(message), path, line)
