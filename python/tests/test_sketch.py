"""The calls that the package was asked for, word by word."""

import pathlib
import pickle

import numpy as np
import pytest
from conftest import RATINGS, needed

import tenfill as tf

polars = needed("polars")
sparse = needed("scipy.sparse")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("sketch")


@pytest.fixture(scope="module")
def source():
    return polars.read_csv(RATINGS)


@pytest.fixture(scope="module")
def ds(place, source):
    return tf.Dataset.write(place / "ratings.tenfill", source, modes=["userId", "movieId", "timestamp"], value="rating",
                            bins={"timestamp": "7d"}, split="80/10/10", memory="1G")


@pytest.fixture(scope="module")
def run(place, ds):
    seen = []
    run = tf.complete(ds, rank="auto", out=place / "run", memory="1G", threads=None, seed=1, progress=True,
                      callbacks=[seen.append])
    assert len(seen) == len(run.log)
    return run


def test_datasets(ds, place):
    coords, values = np.array([[0, 1], [2, 0], [2, 3]]), np.array([1.0, 2.0, 3.0])
    assert tf.Dataset.from_coo(coords, values, shape=(3, 4)).shape == (3, 4)
    matrix = sparse.coo_array((values, tuple(coords.T)), shape=(3, 4))
    assert tf.Dataset.from_scipy(matrix).nnz == 3
    array = np.full((3, 4), np.nan)
    array[tuple(coords.T)] = values
    assert tf.Dataset.from_dense(array).nnz == 3
    assert tf.Dataset.from_dense(np.nan_to_num(array), np.isnan(array)).nnz == 3
    ds = tf.Dataset.open(ds.path)
    assert ds.shape == (500, 300, 52) and ds.nnz == 20_000 and ds.modes == ["userId", "movieId", "timestamp"]
    assert ds.memory_needed(rank=10) > 1 << 20
    assert sum(len(polars.DataFrame(batch)) for batch in ds.to_batches("test")) == ds.entries["test"]


def test_runs(run, place):
    pyarrow = needed("pyarrow")
    needed("matplotlib").use("Agg")
    assert pyarrow.table(run.log).num_rows == run.outcome["iterations"] + 1
    assert len(run.plot().lines) == 2
    run.report(place / "report.html")
    assert run.evaluate("test").rmse < 1.1
    resumed = tf.resume(place / "run", max_iterations=500)
    assert resumed.outcome["iterations"] == run.outcome["iterations"]


def test_models(run, place, source):
    model = tf.load(place / "run")
    assert 0 < model.predict_one(userId=42, movieId=7, timestamp="latest") < 6
    frame = source.head(100)
    assert len(model.predict(frame)) == 100
    reader = needed("pyarrow").RecordBatchReader.from_stream(frame)
    assert sum(len(batch) for batch in model.predict_stream(reader)) == 100
    best = model.recommend({"userId": [42, 43]}, rank_mode="movieId", top=10)
    assert len(best) == 20
    model.recommend_all(rank_mode="movieId", out=place / "best.parquet", top=3)
    assert set(polars.read_parquet(place / "best.parquet")["rank"]) == {1, 2, 3}
    new = frame.with_columns(polars.lit(9999).alias("userId"))
    assert model.fold_in(new, mode="userId", out=place / "run2").shape == (501, 300, 52)
    ranks = model.rank
    assert model.core.shape == ranks and model.factors["movieId"].shape == (300, ranks[1])
    assert model.biases["userId"].shape == (500,) and model.ids["movieId"][6] == 7
    needed("tensorly")
    assert model.to_tensorly().shape == (500, 300, 52)
    assert model.export(place / "exported")


def test_results_go_anywhere(run, source):
    found = run.model.predict(source.head(10))
    assert needed("pyarrow").table(found).num_rows == len(found.to_polars()) == len(found.to_pandas()) == 10
    assert found.to_arrow().num_rows == len(found.to_numpy()["prediction"]) == 10


def test_scikit_learn(source):
    selection, base = needed("sklearn.model_selection"), needed("sklearn.base")
    from tenfill.sklearn import TuckerCompletion

    X, y = source.select("userId", "movieId").to_numpy(), source["rating"].to_numpy()
    model = TuckerCompletion(rank=2, max_iterations=40)
    assert base.clone(model).get_params() == model.get_params()
    assert model.fit(X, y).predict(X).shape == y.shape and model.score(X, y) > 0
    assert len(selection.cross_validate(model, X, y, cv=2)["test_score"]) == 2
    search = selection.GridSearchCV(model, {"rank": [1, 2]}, cv=2).fit(X, y)
    assert search.best_params_["rank"] in (1, 2)


def test_things_say_what_they_are_and_travel(ds, run):
    model = run.model
    for thing in (ds, run, model):
        again = pickle.loads(pickle.dumps(thing))
        assert pathlib.Path(again.path).samefile(thing.path) and repr(again).split("(")[0] == repr(thing).split("(")[0]
    assert "500" in repr(ds) and "20,000" in repr(ds) and "rank" in repr(run) and "RMSE" in repr(model)
    assert "<table" in ds._repr_html_()
    # The way down, beside the words.
    assert all("<polyline" in thing._repr_html_() for thing in (run, model))
