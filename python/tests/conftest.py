"""What the tests share: a small ratings file, a dataset and a run of it, and the command."""

from __future__ import annotations

import importlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

import tenfill as tf

RATINGS = pathlib.Path(__file__).parents[2] / "tests" / "data" / "ratings.csv"
MODES = ["userId", "movieId", "timestamp"]


# Ctrl-C is what it is by default, whoever runs the tests: a shell ignores it in what it starts behind itself.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ratings() -> str:
    return str(RATINGS)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A dataset and a run that tests look at and do not change."""
    home = tmp_path_factory.mktemp("home")
    data = tf.Dataset.write(home / "data.tenfill", RATINGS, progress=False)
    tf.complete(data, rank=4, out=home / "run", max_iterations=15, progress=False)
    return home


@pytest.fixture
def data(home):
    return tf.Dataset.open(home / "data.tenfill")


@pytest.fixture
def run(home):
    return tf.Run(home / "run")


@pytest.fixture
def model(home):
    return tf.load(home / "run")


def needed(name):
    """A module that a test needs: where CI has not installed it, that is a failure and no reason to skip."""
    return importlib.import_module(name) if os.environ.get("CI") else pytest.importorskip(name)


def contents(folder) -> dict[str, bytes]:
    """All files of a folder."""
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def command(*arguments, **options):
    """Runs the command that the wheel installs."""
    program = shutil.which("tenfill", path=os.path.dirname(sys.executable))
    words = [program] if program else [sys.executable, "-c", "from tenfill._command import main; exit(main())"]
    return subprocess.run([*words, *map(str, arguments)], capture_output=True, text=True, **options)
