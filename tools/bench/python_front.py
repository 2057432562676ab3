#!/usr/bin/env python3
"""What the Python package costs, and how it stands beside others.

usage: python_front.py predict [--rows 10000000]     a polars frame beside `tenfill predict` from CSV
       python_front.py one                           the cost of one predict_one
       python_front.py interrupt [--entries 2000000] from Ctrl-C to KeyboardInterrupt, and on to the same bits
       python_front.py packages RATINGS.CSV          MovieLens-100K beside other packages, on one split

`packages` takes the file that tools/data/get_ml100k.py writes, and runs every package that is installed in a process
of its own: lines of its code below, seconds of fitting and predicting, peak resident memory, and RMSE on a test
split that is the same for all. Each has its defaults, or what its manual begins with; none is tuned. implicit ranks
and does not predict ratings, so it has no RMSE. One line of JSON per package.
"""
import argparse, inspect, json, os, resource, subprocess, sys, tempfile, time

RATINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "data", "ratings.csv")


def run_of(home):
    import tenfill as tf

    data = tf.Dataset.write(os.path.join(home, "data.tenfill"), RATINGS, progress=False)
    return tf.complete(data, rank=10, out=os.path.join(home, "run"), max_iterations=30, progress=False)


def predict(rows):
    import numpy as np
    import polars as pl

    with tempfile.TemporaryDirectory() as home:
        run = run_of(home)
        model = run.model
        generator = np.random.default_rng(1)
        frame = pl.DataFrame({"userId": generator.integers(1, 501, rows), "movieId": generator.integers(1, 301, rows),
                              "timestamp": generator.integers(946684800, 977000000, rows)})
        questions, answers = os.path.join(home, "q.csv"), os.path.join(home, "a.csv")
        frame.write_csv(questions)
        program = os.path.join(os.path.dirname(sys.executable), "tenfill")
        for attempt in range(3):
            begun = time.perf_counter()
            model.predict(frame)
            ours = time.perf_counter() - begun
            begun = time.perf_counter()
            subprocess.run([program, "predict", run.path, questions, "-o", answers, "--force", "--quiet"], check=True)
            command = time.perf_counter() - begun
            print(json.dumps({"rows": rows, "frame_seconds": round(ours, 3), "csv_seconds": round(command, 3),
                              "times_as_fast": round(command / ours, 2)}))


def one():
    import timeit

    with tempfile.TemporaryDirectory() as home:
        model = run_of(home).model
        for name, ids in (("ids and the last bin", {"userId": 42, "movieId": 7, "timestamp": "latest"}),
                          ("ids and a date", {"userId": 42, "movieId": 7, "timestamp": "2000-07-15"})):
            count = 20000
            seconds = min(timeit.repeat(lambda: model.predict_one(**ids), number=count, repeat=5))
            print(json.dumps({"what": name, "microseconds": round(1e6 * seconds / count, 2)}))


INTERRUPTED = """
import json, sys, time
import tenfill as tf
kind, source, out, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
print("begun", flush=True)
try:
    if kind == "convert":
        tf.Dataset.write(out, source, progress=False, **options)
    elif kind == "complete":
        tf.complete(source, out=out, progress=False, **options)
    else:
        tf.resume(out, progress=False)
    print("done", flush=True)
except KeyboardInterrupt:
    print(time.monotonic(), time.process_time(), flush=True)
"""


def interrupted(arguments, after):
    """Milliseconds from the signal to the exception, and the processor time between them, which does not depend on who
    else is at work on the machine; none where the work was done before it. Or, without a moment, how many seconds the
    work took."""
    import signal

    # A shell lets what it starts behind itself ignore Ctrl-C.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    words = [sys.executable, "-c", heard + INTERRUPTED, *arguments]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    if after is None:
        begun = time.monotonic()
        assert process.communicate()[0].strip() == "done"
        return time.monotonic() - begun
    time.sleep(after)
    with open(f"/proc/{process.pid}/stat") as file:
        ticks = file.read().rsplit(")", 1)[1].split()[11:13]
    sent, used = time.monotonic(), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    process.send_signal(signal.SIGINT)
    told = process.communicate()[0].split()
    return None if len(told) != 2 else (1000 * (float(told[0]) - sent), 1000 * (float(told[1]) - used))


def interrupt(entries):
    import random
    import shutil

    program = os.path.join(os.path.dirname(sys.executable), "tenfill")
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as home:
        at = lambda name: os.path.join(home, name)  # noqa: E731
        size = ["--entries", str(entries), "--validation", "0.1", "--quiet"]
        low, ratings = ["--dims", "3000,3000,3000", "--rank", "8"], ["--kind", "ratings", "--dims", "20000,4000,200"]
        for name, words in (("rows.csv", ratings), ("low", low), ("ratings", ratings)):
            subprocess.run([program, "synth", "-o", at(name), *words, *size], check=True)
        for kind, what, source, options in (
            ("convert", "CSV", "rows.csv", {}),
            ("complete", "low rank, chunks and conjugate gradients", "low", {"rank": 15, "max_iterations": 10}),
            ("complete", "ratings, sweeps", "ratings", {"rank": "auto", "max_iterations": 5}),
        ):
            words = [at(source), at("out"), json.dumps(options)]
            whole = interrupted([kind, at(source), at("whole"), json.dumps(options)], None)
            took, same = [], 0
            for moment in range(10):
                milliseconds = interrupted([kind, *words], generator.uniform(0, whole))
                took += [] if milliseconds is None else [milliseconds]
                # A dataset is there when it is whole, a run from its first moment on.
                there = os.path.exists(at("out"))
                if milliseconds is not None and not (there and kind == "convert"):
                    interrupted(["resume" if there else kind, *words], None)
                same += bits(at("out")) == bits(at("whole"))
                shutil.rmtree(at("out"))
            shutil.rmtree(at("whole"))
            wall, cpu = (sorted(round(one[which]) for one in took) for which in (0, 1))
            print(json.dumps({"what": f"{kind}: {what}", "entries": entries, "whole_seconds": round(whole, 1),
                              "caught": len(took), "median_ms": wall[len(wall) // 2], "most_ms": wall[-1],
                              "median_cpu_ms": cpu[len(cpu) // 2], "most_cpu_ms": cpu[-1], "same_bits": same}),
                  flush=True)


def bits(folder):
    """What must be the same: the model of a run, all files of a dataset."""
    model = os.path.join(folder, "model", "model.bin")
    found = [model] if os.path.exists(model) else [os.path.join(*one) for one in sorted(
        (place, name) for place, _, names in os.walk(folder) for name in names)]
    return [open(path, "rb").read() for path in found]


def with_tenfill(train, test):
    import tenfill as tf

    home = tempfile.mkdtemp()
    data = tf.Dataset.write(f"{home}/d", train, modes=["userId", "movieId", "timestamp"], value="rating",
                            bins={"timestamp": "7d"}, split="90/10/0", progress=False)
    run = tf.complete(data, rank="auto", out=f"{home}/run", progress=False)
    return run.model.predict(test)["prediction"]


def with_surprise(train, test):
    from surprise import SVD, Dataset, Reader

    data = Dataset.load_from_df(train[["userId", "movieId", "rating"]], Reader(rating_scale=(1, 5)))
    model = SVD(random_state=1).fit(data.build_full_trainset())
    return [model.predict(row.userId, row.movieId).est for row in test.itertuples()]


def with_cmfrec(train, test):
    from cmfrec import CMF

    names = {"userId": "UserId", "movieId": "ItemId", "rating": "Rating"}
    model = CMF(verbose=False, random_state=1).fit(train.rename(columns=names)[list(names.values())])
    return model.predict(test.userId, test.movieId)


def with_lenskit(train, test):
    from lenskit import batch
    from lenskit.als import BiasedMFScorer
    from lenskit.data import ItemListCollection, from_interactions_df
    from lenskit.pipeline import predict_pipeline

    names = {"userId": "user_id", "movieId": "item_id"}
    model = predict_pipeline(BiasedMFScorer(features=50))
    model.train(from_interactions_df(train.rename(columns=names)))
    asked = ItemListCollection.from_df(test.rename(columns=names), ["user_id"])
    found = batch.predict(model, asked, n_jobs=1).to_df().set_index(["user_id", "item_id"])["score"]
    return found.loc[list(zip(test.userId, test.movieId))].to_numpy()


def with_tensorly(train, test):
    import numpy as np
    import tensorly
    from tensorly.decomposition import tucker

    shape = tuple(int(max(train[name].max(), test[name].max())) + 1 for name in ("userId", "movieId"))
    mean = train.rating.mean()
    tensor, mask = np.zeros(shape), np.zeros(shape)
    tensor[train.userId, train.movieId], mask[train.userId, train.movieId] = train.rating - mean, 1
    full = tensorly.tucker_to_tensor(tucker(tensor, rank=[5, 5], mask=mask, n_iter_max=50))
    return np.clip(mean + full[test.userId, test.movieId], 1, 5)


def with_implicit(train, test):
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import coo_matrix

    matrix = coo_matrix((train.rating, (train.userId, train.movieId))).tocsr()
    AlternatingLeastSquares(random_state=1).fit(matrix, show_progress=False)
    return None


PACKAGES = {"tenfill": with_tenfill, "surprise": with_surprise, "cmfrec": with_cmfrec, "lenskit": with_lenskit,
            "tensorly": with_tensorly, "implicit": with_implicit}


def package(name, path):
    import numpy as np
    import pandas

    frame = pandas.read_csv(path)
    held = np.random.default_rng(1).random(len(frame)) < 0.1
    train, test = frame[~held].reset_index(drop=True), frame[held].reset_index(drop=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    found = PACKAGES[name](train, test)
    seconds = time.perf_counter() - begun
    rmse = None if found is None else float(np.sqrt(np.mean((np.asarray(found, dtype=float) - test.rating) ** 2)))
    lines = [line for line in inspect.getsource(PACKAGES[name]).splitlines()[1:] if line.strip()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"package": name, "lines": len(lines), "seconds": round(seconds, 2),
                      "peak_mb": round(peak / 1024), "of_these_before": round(before / 1024), "rmse": rmse}))


def packages(path):
    for name in PACKAGES:
        done = subprocess.run([sys.executable, __file__, "package", name, path], capture_output=True, text=True)
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        print(done.stdout.strip() or json.dumps({"package": name, "failed": last}), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["predict", "one", "interrupt", "packages", "package"])
    p.add_argument("more", nargs="*")
    p.add_argument("--rows", type=int, default=10_000_000)
    p.add_argument("--entries", type=int, default=2_000_000)
    a = p.parse_args()
    {"predict": lambda: predict(a.rows), "one": one, "interrupt": lambda: interrupt(a.entries),
     "packages": lambda: packages(*a.more), "package": lambda: package(*a.more)}[a.what]()


if __name__ == "__main__":
    main()
