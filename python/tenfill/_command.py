"""The command `tenfill`: the same program as the one that cargo builds."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    """Runs the program with the arguments of this process."""
    # The program has its own way with Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["tenfill", *sys.argv[1:]])
