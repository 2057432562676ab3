#!/usr/bin/env python3
"""Runs the notebooks of docs/notebooks from their folder; a cell that fails is a failure.

    tools/run-notebooks.py [NOTEBOOK ...]

Needs nbclient, ipykernel, and what the notebooks import. Nothing is written back.
"""

import pathlib
import sys
import time

import nbformat
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "notebooks"

for path in [pathlib.Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
    begun = time.monotonic()
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.resolve().parent)}}).execute()
    print(f"{path.name}: {time.monotonic() - begun:.1f} s")
