"""The command `tenfill`: the same program as the one that cargo builds."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    """Runs the program with the arguments of this process."""
    # The program has its own way with signals, and pipes that nobody reads any more.
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGINT else signal.SIG_IGN)
    return _native.main(["tenfill", *sys.argv[1:]])
