"""Callbacks for trackers, with stand-ins for what they import; the bar of progress."""

import io
import sys
import types

import tenfill as tf
from tenfill import _progress, callbacks


class Told(list):
    """Remembers every call of any name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *given, **named: self.append((name, given, named))


def lines(told, name):
    return [one for one in told if one[0] == name]


def completed(data, callback):
    tf.complete(data, rank=2, out="run", max_iterations=3, callbacks=[callback], progress=False)


def test_mlflow(data, monkeypatch):
    told = Told()
    monkeypatch.setitem(sys.modules, "mlflow", told)
    completed(data, callbacks.MLflow(run_name="mine"))
    assert told[0][0] == "active_run" and lines(told, "start_run")[0][2] == {"run_name": "mine"}
    metrics = lines(told, "log_metrics")
    assert [one[2]["step"] for one in metrics] == [0, 1, 2, 3] and "train_rmse" in metrics[0][1][0]
    assert told[-1][0] == "end_run"


def test_tensorboard(data, monkeypatch):
    told = Told()
    torch = types.ModuleType("torch.utils.tensorboard")
    torch.SummaryWriter = lambda directory: told
    for name in ("torch", "torch.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", torch)
    completed(data, callbacks.TensorBoard("logs"))
    assert ("train_rmse", 3) in [(one[1][0], one[1][2]) for one in lines(told, "add_scalar")]
    assert told[-1][0] == "close"


def test_wandb(data, monkeypatch):
    told = Told()
    wandb = types.ModuleType("wandb")
    wandb.run, wandb.init = None, lambda **named: told
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    completed(data, callbacks.WandB(project="mine"))
    assert len(lines(told, "log")) == 4 and told[-1][0] == "finish"


def test_the_bar_is_drawn_and_removed(monkeypatch, data):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    tf.complete(data, rank=2, out="run", algorithm="sd", max_iterations=3)
    drawn = terminal.getvalue()
    assert "complete  [" in drawn
    # Written over with blanks before anything else is said.
    assert "   \r" in drawn and "learned nothing" in drawn.split("   \r")[-1]
    assert _progress._size(1_500_000, "bytes") == "1.5 MB"
