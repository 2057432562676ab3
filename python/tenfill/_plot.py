"""A small picture of a run for notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native
from ._errors import Error
from ._table import Table

WIDTH, HEIGHT, EDGE = 420, 180, 28


def _line(x: Any, y: Any, box: tuple[float, float, float, float], colour: str) -> str:
    left, right, low, high = box
    scale = (WIDTH - 2 * EDGE) / max(right - left, 1e-300), (HEIGHT - 2 * EDGE) / max(high - low, 1e-300)
    points = " ".join(
        f"{EDGE + (a - left) * scale[0]:.1f},{HEIGHT - EDGE - (b - low) * scale[1]:.1f}" for a, b in zip(x, y)
    )
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'


def of_run(run: Any) -> str:
    """The errors of a run over its iterations; nothing where it has no log."""
    try:
        log = Table(_native.log(run))
    except Error:
        return ""
    return svg(log["iteration"], log["train_rmse"], log["validation_rmse"]) if len(log) else ""


def svg(iterations: Any, train: Any, validation: Any) -> str:
    """The errors over the iterations, the larger part of them cut where they begin far above their end."""
    iterations = np.asarray(iterations, dtype=float)
    lines = [("#2b6cb0", np.asarray(train, dtype=float))]
    validation = np.asarray([np.nan if one is None else one for one in validation], dtype=float)
    if np.isfinite(validation).any():
        lines.append(("#c05621", validation))
    together = np.concatenate([numbers[np.isfinite(numbers)] for _, numbers in lines])
    if together.size == 0:
        return ""
    low, high = float(together.min()), float(np.quantile(together, 0.95))
    box = (float(iterations.min()), float(iterations.max()), low, high)
    drawn = ""
    for colour, numbers in lines:
        kept = np.isfinite(numbers)
        drawn += _line(iterations[kept], np.minimum(numbers[kept], high), box, colour)
    words = (
        f'<text x="{EDGE}" y="{HEIGHT - 8}" font-size="11" fill="currentColor">iterations 0 to '
        f"{int(box[1])}, RMSE {low:.4g} to {high:.4g}; blue train, red validation</text>"
    )
    return f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">{drawn}{words}</svg>'
