"""Runs: the bits of the command, callbacks, interrupts, resuming."""

import json
import logging
import math
import multiprocessing
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import command, contents, needed

import tenfill as tf
from tenfill import _native
from tenfill.callbacks import EarlyStopping


def bits(run):
    return (pathlib.Path(run) / "model" / "model.bin").read_bytes()


def test_python_and_the_command_give_the_same_bits(data, ratings):
    tf.complete(data, rank=(4, 3, 2), out="a", max_iterations=12, seed=7, threads=1, progress=False)
    done = command("complete", data.path, "--rank", "4,3,2", "-o", "b", "--max-iterations", 12, "--seed", 7)
    assert done.returncode == 0, done.stderr
    assert bits("a") == bits("b")
    tf.complete(ratings, out="c", max_iterations=12, progress=False)
    assert command("complete", ratings, "--rank", "auto", "-o", "d", "--max-iterations", 12).returncode == 0
    assert bits("c") == bits("d")


def test_every_flag_is_a_keyword_and_every_keyword_a_flag():
    import inspect

    own = {"dataset", "source", "path", "self", "callbacks", "progress", "on_interrupt", "cls", "compare"}
    made = {
        "convert": tf.Dataset.write, "complete": tf.complete, "resume": tf.resume, "evaluate": tf.Run.evaluate,
        "fold-in": tf.Model.fold_in, "export": tf.Model.export, "report": tf.Run.report,
        "recommend": tf.Model.recommend_all, "append": tf.Dataset.append, "entries": tf.Dataset.write_entries,
        "fill": tf.fill,
    }
    for name, function in made.items():
        keywords = set(inspect.signature(function).parameters) - own
        flags = {flag for flag in _native.flags(name) if not flag.startswith("no-")} - {"json", "quiet", "verbose"}
        flags = {{"output": "out", "bin": "bins", "for": "for_mode"}.get(flag, flag.replace("-", "_")) for flag in flags}
        keywords |= {"out"} if name == "convert" else set()
        keywords -= {"run"} if name != "fill" else set()
        # Removed ones, which say so.
        keywords -= {"grow", "refine"}
        assert keywords == flags, name


def test_a_callback_sees_every_line_and_stops(data):
    seen = []

    def stop(line):
        # Where the work was asked for: trackers keep their runs by thread.
        assert threading.current_thread() is threading.main_thread()
        seen.append(line)
        return line.iteration == 5

    run = tf.complete(data, rank=3, out="run", callbacks=[stop], progress=False)
    assert [line.iteration for line in seen] == list(range(6))
    assert run.outcome["iterations"] == 5 and run.outcome["stopped_by"] == "interrupted"
    assert math.isclose(seen[-1].train_rmse, seen[-1].train_mse**0.5)
    again = tf.resume("run", max_iterations=8, progress=False)
    assert again.outcome["iterations"] == 8
    tf.complete(data, rank=3, out="whole", max_iterations=8, progress=False)
    assert bits("run") == bits("whole")


def test_an_exception_of_a_callback_comes_through_after_a_checkpoint(data):
    class Mine(Exception):
        pass

    def fail(line):
        if line.iteration == 3:
            raise Mine("enough")

    with pytest.raises(Mine, match="enough"):
        tf.complete(data, rank=3, out="run", callbacks=[fail], progress=False)
    assert tf.resume("run", max_iterations=6, progress=False).outcome["iterations"] == 6


def test_early_stopping_and_finish(data):
    class Finished:
        lines, finished = 0, 0

        def __call__(self, line):
            self.lines += 1

        def finish(self):
            self.finished += 1

    watch = Finished()
    tf.complete(data, rank=3, out="run", callbacks=[EarlyStopping(seconds=0.0), watch], progress=False)
    assert (watch.lines, watch.finished) == (1, 1)
    stopping = EarlyStopping("train_rmse", patience=2, least=1e9)
    run = tf.complete(data, rank=3, out="other", callbacks=[stopping], progress=False)
    assert run.outcome["iterations"] == 2


INTERRUPTED = """
import json, sys, time, tenfill as tf
kind, source, out, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
print("begun", flush=True)
try:
    if kind == "convert":
        tf.Dataset.write(out, source, progress=False, **options)
    else:
        tf.complete(source, out=out, progress=False, **options)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
    sys.exit(77)
"""


def interrupted(script, arguments, after):
    """The exit code, and the seconds from the signal to the exception, or to the end where none says when it came."""
    process = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    time.sleep(after)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[0].strip()
    return process.returncode, (float(told) if told else time.monotonic()) - sent


def everything(folder):
    """What an interrupt must not change: the model of a run, or the files of a dataset."""
    return contents(folder) if pathlib.Path(folder, "manifest.json").exists() else bits(folder)


PLAIN = {"rank": 6, "max_iterations": 400, "patience": 0, "tolerance": 0, "gradient_tolerance": 0,
         "bias": "none", "penalty": 0}


@pytest.mark.parametrize(
    ("what", "kind", "source", "options"),
    [
        ("conjugate gradients", "complete", "--dims 200,150,40 --rank 4 --entries 60000 --validation 0.1 -o data", PLAIN),
        ("sweeps", "complete", "--kind ratings --dims 2000,500,50 --entries 100000 --validation 0.1 -o data",
         {"rank": "auto", "max_iterations": 5}),
        ("convert", "convert", "--kind ratings --dims 2000,500,50 --entries 400000 -o data.csv", {}),
    ],
)
def test_ctrl_c_at_ten_moments_then_resumed_to_the_same_bits(what, kind, source, options, capsys):
    made = command("synth", *source.split(), "--quiet")
    assert made.returncode == 0, made.stderr
    source = source.split()[-1]

    def whole(out):
        if kind == "convert":
            tf.Dataset.write(out, source, progress=False, **options)
        else:
            tf.complete(source, out=out, progress=False, **options)

    begun = time.monotonic()
    whole("whole")
    took = time.monotonic() - begun
    waited = []
    for moment in range(10):
        out = f"out{moment}"
        arguments = [kind, source, out, json.dumps(options)]
        code, seconds = interrupted(INTERRUPTED, arguments, took * (moment + 0.3) / 10)
        # The last ones may come when the work is done and Python is about to end. The machine may be busy: how long
        # it takes is printed here, and measured by tools/bench/python_front.py interrupt.
        assert code in (0, 77, -signal.SIGINT) and seconds < 2, (moment, code, seconds)
        waited += [1000 * seconds] if code == 77 else []
        if kind == "complete" and code == 77 and pathlib.Path(out).exists():
            tf.resume(out, progress=False)
        elif not pathlib.Path(out).exists():
            whole(out)
        assert everything(out) == everything("whole"), moment
    assert len(waited) >= 5
    with capsys.disabled():
        waited.sort()
        print(f"\n{what}: from Ctrl-C to KeyboardInterrupt {waited[len(waited) // 2]:.0f} ms, at most {waited[-1]:.0f}")


def test_ctrl_c_while_a_stream_is_read():
    script = """
import sys, time, numpy as np, tenfill as tf
def rows():
    print("begun", flush=True)
    while True:
        yield {"a": np.arange(1000), "b": np.arange(1000) % 7, "value": np.ones(1000)}
try:
    tf.Dataset.write("never.tenfill", rows(), modes=["a", "b"], value="value", progress=False)
except KeyboardInterrupt:
    sys.exit(77)
"""
    code, took = interrupted(script, [], 0.5)
    assert code == 77 and took < 1, (code, took)
    assert not pathlib.Path("never.tenfill").exists()


def test_an_interrupt_may_return_the_run(data):
    def press(line):
        if line.iteration == 4:
            signal.raise_signal(signal.SIGINT)

    run = tf.complete(data, rank=3, out="run", callbacks=[press], on_interrupt="return", progress=False)
    assert run.outcome["stopped_by"] == "interrupted"
    assert run.model.rank == (3, 3, 1)
    with pytest.raises(KeyboardInterrupt):
        tf.complete(data, rank=3, out="other", callbacks=[press], progress=False)
    assert pathlib.Path("other/model/model.bin").exists()


def test_threads_run_models_at_once(data):
    done = []

    def work(number):
        done.append(tf.complete(data, rank=3, out=f"run{number}", max_iterations=8, progress=False).path)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(done) == 3 and len({bits(run) for run in done}) == 1


def _in_child(path, queue):
    try:
        queue.put(str(tf.Dataset.open(path)))
    except tf.Error as error:
        queue.put(f"{type(error).__name__}: {error}")


def test_a_fork_gets_a_clear_error_and_spawn_works(data):
    for method, expected in (("fork", "forked"), ("spawn", "Dataset(")):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=_in_child, args=(data.path, queue))
        child.start()
        told = queue.get(timeout=30)
        child.join()
        assert expected in told, told


def test_log_report_plot_evaluate(run, home):
    log = run.log
    assert log.columns[0] == "iteration" and len(log) == 14
    assert log["train_rmse"].dtype == float
    lines = [json.loads(line) for line in (home / "run" / "log.jsonl").read_text().splitlines()]
    assert list(log["train_rmse"]) == [line["train_rmse"] for line in lines]
    run.report("report.html")
    assert "<svg" in pathlib.Path("report.html").read_text()
    found = run.evaluate("test")
    told = json.loads(command("evaluate", run.path, "--json").stdout)
    assert (found.mse, found.mae, found.entries) == (told["mse"], told["mae"], told["entries"])
    ranked = run.evaluate("test", top=5, rank_mode="movieId", relevant=4)
    assert 0 <= ranked.fields["ndcg_at_k"] <= 1
    matplotlib = needed("matplotlib")
    matplotlib.use("Agg")
    assert len(run.plot().lines) == 2
    assert "<polyline" in run._repr_html_()


def test_progress_goes_to_logging(data, caplog):
    with caplog.at_level(logging.INFO, logger="tenfill"):
        tf.complete(data, rank=3, out="run", max_iterations=2, progress="log")
    assert "solve" in caplog.text or "..." in caplog.text


def test_errors_and_models_travel(run):
    error = pickle.loads(pickle.dumps(tf.InputError("what", "file", 3)))
    assert (str(error), error.path, error.line) == ("what", "file", 3)
    model = pickle.loads(pickle.dumps(run.model))
    assert model.rank == run.model.rank


def test_the_command_is_the_program():
    assert command("--version").stdout.strip() == f"tenfill {tf.__version__}"
    wrong = command("complete", "nothing.csv", "-o", "x", "--rank", "2", "--json")
    assert wrong.returncode == 1 and "there is no such file" in json.loads(wrong.stdout)["error"]
