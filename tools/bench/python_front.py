#!/usr/bin/env python3
"""What the Python package costs, and how it stands beside others.

usage: python_front.py predict [--rows 10000000]     a polars frame beside `tenfill predict` from CSV
       python_front.py one                           the cost of one predict_one
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
    p.add_argument("what", choices=["predict", "one", "packages", "package"])
    p.add_argument("more", nargs="*")
    p.add_argument("--rows", type=int, default=10_000_000)
    a = p.parse_args()
    {"predict": lambda: predict(a.rows), "one": one, "packages": lambda: packages(*a.more),
     "package": lambda: package(*a.more)}[a.what]()


if __name__ == "__main__":
    main()
