"""From keywords to the arguments of a command."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _native
from ._errors import KEYWORDS, UsageError

FLAGS = {keyword: flag for flag, keyword in KEYWORDS.items()}
Path = str | os.PathLike[str]


def several(value: object) -> Iterable[object] | None:
    """What a list, an array, a set or a generator holds; None of a single value."""
    single = isinstance(value, (str, bytes)) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value if isinstance(value, Iterable) and not single else None


def text(value: object) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    values = several(value)
    if values is not None:
        return ",".join(text(one) for one in values)
    if isinstance(value, np.ndarray):
        return text(value.item())
    return str(value.item()) if isinstance(value, np.generic) else str(value)


def operand(path: Path) -> str:
    """A path that no command takes for a flag, or for standard input."""
    path = os.fspath(path)
    return os.path.join(".", path) if path.startswith("-") else path


def arguments(command: str, operands: Sequence[Path], options: Mapping[str, object]) -> list[str]:
    """The arguments of a command; what is None is left to its default."""
    known = set(_native.flags(command))
    out = [command, *(operand(path) for path in operands)]
    for keyword, value in options.items():
        flag = FLAGS.get(keyword, keyword.replace("_", "-"))
        if flag not in known:
            raise UsageError(f"`{keyword}` is no option of {command}")
        if value is None:
            continue
        if value is True:
            out.append(f"--{flag}")
        elif value is False:
            # Without a flag that says so, not to do it is the default.
            out += [f"--no-{flag}"] * (f"no-{flag}" in known)
        elif isinstance(value, Mapping):
            out += [f"--{flag}={key}={text(one)}" for key, one in value.items()]
        elif flag in ("validation", "test"):
            paths = [value] if isinstance(value, (str, os.PathLike)) else list(value)  # type: ignore[call-overload]
            out += [f"--{flag}={operand(path)}" for path in paths]
        elif flag in ("where", "missing"):
            values = several(value)
            out += [f"--{flag}={text(one)}" for one in ([value] if values is None else values)]
        else:
            out.append(f"--{flag}={text(value)}")
    return out


def check_removed(**given: bool | None) -> None:
    """Raises where an option is given that this version has not any more, with the command's sentence."""
    for keyword, value in given.items():
        if value is not None:
            name = keyword if value else f"{keyword}=False"
            instead = "sweeps have taken the place of the search: leave it out"
            if name == "grow=False":
                instead = "a rank that is given is kept to, with `bias` and `penalty`: leave it out"
            raise UsageError(f"`{name}` was removed in this version: {instead}")


def call(
    command: str,
    operands: Sequence[Path],
    options: Mapping[str, object],
    *,
    batches: Sequence[tuple[str, object]] = (),
    modes: Sequence[str] | None = None,
    line: Callable[[str], bool] | None = None,
    progress: Callable[[str, str, str, int], None] | None = None,
    keep: bool = False,
) -> dict[str, Any]:
    """Runs a command and returns its line of JSON."""
    words = arguments(command, operands, options)
    columns = None if modes is None else [str(mode) for mode in modes]
    answer = _native.call(
        words, batches=list(batches), modes=columns, line=line, progress=progress, keep=keep
    )
    found: dict[str, Any] = json.loads(answer)
    return found
