"""tenfill completes huge sparse tensors, streamed from disk within a fixed memory budget.

    import tenfill as tf

    data = tf.Dataset.write("ratings.tenfill", frame, modes=["userId", "movieId", "timestamp"], value="rating",
                            bins={"timestamp": "7d"})
    run = tf.complete(data, rank="auto", out="run", memory="1G")
    model = tf.load("run")
    model.predict_one(userId=42, movieId=7, timestamp="latest")
"""

from ._dataset import Dataset
from ._errors import Error, FormatError, InputError, InternalError, MemoryRefused, UsageError
from ._fill import Filled, fill
from ._model import Model, Prediction, load
from ._native import __version__
from ._run import Evaluation, LogLine, Run, complete, resume
from ._table import Stream, Table

__all__ = [
    "Dataset",
    "Error",
    "Evaluation",
    "Filled",
    "FormatError",
    "InputError",
    "InternalError",
    "LogLine",
    "MemoryRefused",
    "Model",
    "Prediction",
    "Run",
    "Stream",
    "Table",
    "UsageError",
    "__version__",
    "complete",
    "fill",
    "load",
    "resume",
]
