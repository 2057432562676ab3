"""A model asked: values, recommendations, parts, results in every form."""

import datetime
import json
import pathlib
import pickle

import numpy as np
import pytest
from conftest import command, needed

import tenfill as tf

polars = needed("polars")
pandas = needed("pandas")
pyarrow = needed("pyarrow")


def test_predict_says_what_the_command_says(model, ratings):
    frame = polars.read_csv(ratings)
    found = model.predict(frame)
    assert found.columns == [*frame.columns, "prediction", "known"]
    assert command("predict", model.path, ratings, "-o", "told.parquet").returncode == 0
    told = polars.read_parquet("told.parquet")
    assert np.array_equal(found["prediction"], told["prediction"].to_numpy())
    assert found["known"].all()
    for source in (frame.lazy(), frame.to_pandas(), frame.to_arrow(), {n: frame[n].to_numpy() for n in frame.columns},
                   frame.iter_slices(700), frame.select(polars.all().cast(polars.String))):
        assert np.array_equal(model.predict(source)["prediction"], found["prediction"])
    array = frame.select(model.modes).to_numpy()
    assert np.array_equal(model.predict(array)["prediction"], found["prediction"])


def test_results_go_everywhere(model, ratings):
    found = model.predict(polars.read_csv(ratings)[:50])
    expected = found["prediction"]
    assert np.array_equal(found.to_polars()["prediction"].to_numpy(), expected)
    assert np.array_equal(found.to_pandas()["prediction"].to_numpy(), expected)
    assert np.array_equal(found.to_arrow()["prediction"].to_numpy(), expected)
    assert np.array_equal(found.to_numpy()["prediction"], expected)
    assert np.array_equal(pyarrow.table(found)["prediction"].to_numpy(), expected)
    duckdb = needed("duckdb")
    answers = pyarrow.table(found)
    assert duckdb.sql("select count(*) from answers").fetchall() == [(50,)]
    found.write("found.parquet")
    assert polars.read_parquet("found.parquet").equals(found.to_polars())
    assert len(found) == 50 and "50 rows" in repr(found) and "<table>" in found._repr_html_()


def test_streams_are_read_as_they_are_asked_for(model, ratings):
    frame = polars.read_csv(ratings)
    taken = []

    def slices():
        for part in frame.iter_slices(1000):
            taken.append(len(part))
            yield part

    stream = model.predict_stream(slices())
    first = next(iter(stream))
    assert len(first) == 1000 and len(taken) <= 2
    rest = stream.to_arrow().read_all()
    assert rest.num_rows == 19_000
    whole = np.concatenate([first["prediction"], rest["prediction"].to_numpy()])
    assert np.array_equal(whole, model.predict(frame)["prediction"])
    with pytest.raises(tf.UsageError, match="read already"):
        stream.to_arrow()


def test_one_value(model, ratings):
    frame = polars.read_csv(ratings)
    row = frame.row(7, named=True)
    value = model.predict_one(userId=row["userId"], movieId=row["movieId"], timestamp=row["timestamp"])
    assert value == model.predict(frame[7:8])["prediction"][0] and value.known
    ids = {"userId": 1, "movieId": "25"}
    day = model.predict_one(**ids, timestamp=datetime.date(2000, 7, 15))
    assert day == model.predict_one(userId=np.int64(1), movieId=25, timestamp="2000-07-15")
    assert model.predict_one(**ids, timestamp="latest") == model.predict_one(**ids, timestamp="2000-12-22")
    average = model.predict_one(**ids, timestamp="average")
    week = [model.predict_one(**ids, timestamp=begin) for begin in model.ids["timestamp"]]
    assert min(week) <= average <= max(week)
    stranger = model.predict_one(userId=10**9, movieId=25, timestamp="latest")
    assert not stranger.known and pickle.loads(pickle.dumps(stranger)).known is False
    with pytest.raises(tf.UsageError, match="what is timestamp"):
        model.predict_one(**ids)
    with pytest.raises(tf.UsageError, match="no mode 'day'"):
        model.predict_one(**ids, timestamp="latest", day=3)
    with pytest.raises(tf.UsageError, match="neither a date nor a number"):
        model.predict_one(**ids, timestamp="yesterday")


def test_recommendations_are_those_of_the_command(model):
    found = model.recommend({"userId": [1, 42, 1]}, rank_mode="movieId", top=5)
    assert found.columns == ["userId", "rank", "movieId", "prediction", "known"]
    for position, user in enumerate((1, 42, 1)):
        done = command("recommend", model.path, "--given", f"userId={user}", "--rank-mode", "movieId", "--top", 5,
                       "-o", "best.csv", "--force")
        assert done.returncode == 0, done.stderr
        told = polars.read_csv("best.csv")
        part = found.to_polars()[5 * position : 5 * position + 5]
        assert part["movieId"].to_list() == told["movieId"].to_list()
        assert part["prediction"].to_list() == told["prediction"].to_list()
    one = model.recommend({"userId": 1, "timestamp": "latest"}, rank_mode="movieId", top=3, include_seen=True)
    assert len(one) == 3 and list(one["timestamp"]) == ["latest"] * 3
    done = model.recommend_all(rank_mode="movieId", out="all.parquet", top=2, progress=False)
    assert len(polars.read_parquet("all.parquet")) == done["rows"] > 900
    for given, what in (({}, "for whom"), ({"movieId": 3}, "ranked"), ({"who": 3}, "no mode 'who'")):
        with pytest.raises(tf.UsageError, match=what):
            model.recommend(given, rank_mode="movieId")
    with pytest.raises(tf.UsageError, match="`top` 0"):
        model.recommend({"userId": 1}, rank_mode="movieId", top=0)


def test_parts_make_the_prediction(model, ratings):
    row = polars.read_csv(ratings).row(7, named=True)
    at = {
        "userId": int(np.flatnonzero(model.ids["userId"] == row["userId"])[0]),
        "movieId": int(np.flatnonzero(model.ids["movieId"] == row["movieId"])[0]),
    }
    week = np.datetime64(row["timestamp"], "s")
    begins = model.ids["timestamp"].astype("datetime64[s]")
    at["timestamp"] = int(np.searchsorted(begins, week, side="right")) - 1
    tensor = model.core
    for mode in model.modes:
        tensor = np.tensordot(tensor, model.factors[mode][at[mode]], axes=(0, 0))
    biased = bool(model._about["has_biases"])
    value = float(tensor) + biased * (model.mean + sum(model.biases[mode][at[mode]] for mode in model.modes))
    # Ratings are taken into their range by the mean of what it leaves, and there may be a time bias.
    assert abs(model.predict_one(**row_ids(row)) - value) < 0.5
    assert model.core.shape == model.rank and set(model.factors) == set(model.modes)
    assert model.factors["userId"].shape == (500, model.rank[0])
    assert model.id_table("movieId").columns == ["movieId", "known"]
    with pytest.raises(KeyError, match="no mode 'x'"):
        model.factors["x"]


def row_ids(row):
    return {name: row[name] for name in ("userId", "movieId", "timestamp")}


def test_fold_in_from_a_frame_and_from_a_file(model):
    new = polars.DataFrame({"userId": [9001] * 6, "movieId": [1, 2, 3, 4, 5, 6], "rating": [5.0, 4, 5, 4, 5, 4],
                            "timestamp": [963619200] * 6})
    more = model.fold_in(new, mode="userId", out="more", progress=False)
    assert more.shape[0] == 501
    assert more.predict_one(userId=9001, movieId=25, timestamp="latest").known
    new.write_csv("new.csv")
    same = model.fold_in("new.csv", out="same", progress=False)
    entry = {"userId": 9001, "movieId": 25, "timestamp": "latest"}
    assert same.predict_one(**entry) == more.predict_one(**entry)
    with pytest.raises(tf.InputError, match="<stream>.*no column 'movieId'"):
        model.fold_in(new.drop("movieId"), out="none", progress=False)


def test_export_and_tensorly(model):
    files = model.export("exported", format="npy")
    assert files and all((pathlib.Path("exported") / name).exists() for name in files)
    tensorly = needed("tensorly")
    tucker = model.to_tensorly()
    assert tensorly.tucker_to_tensor(tucker).shape == model.shape


def test_what_things_say_of_themselves(model, data, run):
    for thing, words in ((model, "rank 4,4,1"), (data, "20,000 entries"), (run, "Run(")):
        assert words in repr(thing)
        assert "<" in thing._repr_html_()
    assert data.memory_needed(rank=4) == json.loads(
        command("inspect", data.path, "--rank", 4, "--json").stdout)["memory_bytes"]
    # The start, iterations, and the last sweep.
    assert pandas.DataFrame(run.log.to_numpy()).shape[0] == 14


def test_ids_may_be_floats_and_batches_must_be_alike(model):
    one = {"userId": 1.0, "movieId": 25.0, "timestamp": "latest"}
    assert model.predict_one(**one) == model.predict_one(userId=1, movieId=25, timestamp="latest")
    best = model.recommend({"userId": 1.0}, rank_mode="movieId", top=2)
    assert list(best["movieId"]) == list(model.recommend({"userId": 1}, rank_mode="movieId", top=2)["movieId"])
    good = {"userId": [1], "movieId": [25], "timestamp": [963619200]}
    with pytest.raises(tf.InputError, match="behind 1 rows has other columns"):
        model.predict(iter([good, good | {"more": [1]}]))


def test_a_temporary_dataset_stays_as_long_as_its_model():
    generator = np.random.default_rng(1)
    at = np.argwhere(generator.random((30, 20)) < 0.6)
    model = tf.complete(tf.Dataset.from_coo(at, generator.normal(size=len(at)), (30, 20), progress=False), rank=2,
                        out="run", max_iterations=3, progress=False).model
    seen = {tuple(row) for row in at}
    best = model.recommend({"mode1": 3}, rank_mode="mode2", top=20)
    assert not any((3, movie) in seen for movie in best["mode2"])


def test_models_fitted_by_sweeps_know_how_sure_they_are(data, ratings):
    model = tf.complete(data, out="sure", progress=False).model
    frame = polars.read_csv(ratings)[:200]
    found = model.predict(frame, sd=True)
    assert found.columns == [*frame.columns, "prediction", "known", "sd"]
    assert command("predict", model.path, ratings, "--sd", "-o", "told.parquet").returncode == 0
    assert np.array_equal(found["sd"], polars.read_parquet("told.parquet")["sd"].to_numpy()[:200])
    assert (found["sd"] > 0).all()
    streamed = next(iter(model.predict_stream(frame, sd=True)))
    assert np.array_equal(streamed["sd"], found["sd"])
    ids = {mode: frame[mode][0] for mode in model.modes}
    one = model.predict_one(**ids)
    assert one.sd == found["sd"][0] and pickle.loads(pickle.dumps(one)).sd == one.sd
    assert model.predict_one(**{**ids, "userId": "nobody"}).sd > 0
    best = model.recommend({"userId": 42}, rank_mode="movieId", sd=True, explore=2.0)
    assert best.columns == ["userId", "rank", "movieId", "prediction", "known", "bound", "sd"]
    assert (np.diff(best["bound"]) <= 0).all() and (best["bound"] >= best["prediction"]).all()
    model.recommend_all(rank_mode="movieId", out="best.csv", all="userId", sd=True, explore=2.0, progress=False)
    told = polars.read_csv("best.csv").filter(polars.col("userId") == 42)
    assert np.allclose(told["bound"].to_numpy(), best["bound"], atol=1e-12)
    with pytest.raises(tf.Error, match="explore"):
        model.recommend({"userId": 42}, rank_mode="movieId", explore=-1.0)
    assert [one["nominal"] for one in tf.Run("sure").evaluate().coverage] == [0.5, 0.8, 0.95]
    plain = tf.complete(data, rank=2, out="plain", penalty=0.0, bias="none", progress=False).model
    assert plain.predict_one(**ids).sd is None
    with pytest.raises(tf.Error, match="how sure it is"):
        plain.predict(frame, sd=True)
