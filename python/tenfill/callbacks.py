"""Ready-made callbacks for `complete` and `resume`. What they need is imported when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._run import LogLine

__all__ = ["EarlyStopping", "MLflow", "TensorBoard", "WandB"]

_METRICS = ("cost", "train_rmse", "validation_rmse", "validation_mae", "gradient_norm", "seconds")


def _metrics(line: LogLine) -> dict[str, float]:
    found = ((name, getattr(line, name)) for name in _METRICS)
    return {name: value for name, value in found if value is not None}


class EarlyStopping:
    """Stops when a field of the log has not fallen by `least` for `patience` iterations, or after `seconds`."""

    def __init__(
        self,
        field: str = "validation_rmse",
        *,
        patience: int = 10,
        least: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        self.field, self.patience, self.least, self.seconds = field, patience, least, seconds
        self.best = float("inf")
        self.since = 0

    def __call__(self, line: LogLine) -> bool:
        if self.seconds is not None and line.seconds > self.seconds:
            return True
        value = line.fields.get(self.field)
        if value is None:
            return False
        if value < self.best - self.least:
            self.best, self.since = value, 0
        else:
            self.since += 1
        return self.since >= self.patience


class MLflow:
    """Logs every line to the active run of MLflow, or to a new one, which is ended with the work."""

    def __init__(self, **run: Any) -> None:
        import mlflow

        self.mlflow = mlflow
        self.own = mlflow.active_run() is None
        if self.own:
            mlflow.start_run(**run)

    def __call__(self, line: LogLine) -> None:
        self.mlflow.log_metrics(_metrics(line), step=line.iteration)

    def finish(self) -> None:
        if self.own:
            self.mlflow.end_run()


class TensorBoard:
    """Writes every line for TensorBoard, with the writer of torch or of tensorboardX."""

    def __init__(self, directory: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            from tensorboardX import SummaryWriter
        self.writer = SummaryWriter(directory)

    def __call__(self, line: LogLine) -> None:
        for name, value in _metrics(line).items():
            self.writer.add_scalar(name, value, line.iteration)

    def finish(self) -> None:
        self.writer.close()


class WandB:
    """Logs every line to the active run of Weights & Biases, or to a new one, which is ended with the work."""

    def __init__(self, **run: Any) -> None:
        import wandb

        self.own = wandb.run is None
        self.run = wandb.init(**run) if self.own else wandb.run

    def __call__(self, line: LogLine) -> None:
        metrics: Mapping[str, float] = _metrics(line)
        self.run.log(dict(metrics), step=line.iteration)

    def finish(self) -> None:
        if self.own:
            self.run.finish()
