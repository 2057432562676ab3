"""The same rows from anywhere give the same bytes."""

import pathlib

import numpy as np
import pytest
from conftest import MODES, command, contents, needed

import tenfill as tf

duckdb = needed("duckdb")
pandas = needed("pandas")
polars = needed("polars")
pyarrow = needed("pyarrow")
csv = needed("pyarrow.csv")
sparse = needed("scipy.sparse")

OPTIONS = {"modes": MODES, "value": "rating", "bins": {"timestamp": "7d"}, "progress": False}


def written(source, **options):
    place = tf.Dataset.write("other.tenfill", source, force=True, **(OPTIONS | options)).path
    return contents(place)


@pytest.fixture
def reference(ratings):
    done = command("convert", ratings, "-o", "reference.tenfill", "--modes", ",".join(MODES), "--value", "rating",
                   "--bin", "timestamp=7d")
    assert done.returncode == 0, done.stderr
    return contents("reference.tenfill")


def test_frames_streams_and_iterators_give_the_bytes_of_the_command(ratings, reference):
    table = csv.read_csv(ratings)
    frame = polars.read_csv(ratings)
    batches = table.to_batches(max_chunksize=777)
    sources = {
        "path": ratings,
        "paths": [ratings],
        "pyarrow": table,
        "reader": pyarrow.RecordBatchReader.from_batches(table.schema, iter(batches)),
        "batches": (batch for batch in batches),
        "polars": frame,
        "lazy": frame.lazy(),
        "pandas": pandas.read_csv(ratings),
        "pandas chunks": pandas.read_csv(ratings, chunksize=999),
        "duckdb": duckdb.sql(f"select * from read_csv('{ratings}')"),
        "mapping": {name: frame[name].to_numpy() for name in frame.columns},
        "mappings": ({name: part[name].to_numpy() for name in part.columns} for part in frame.iter_slices(501)),
    }
    for name, source in sources.items():
        assert written(source) == reference, name


def arro3(table, ratings):
    core = needed("arro3.core")
    batches = [core.RecordBatch.from_arrow(batch) for batch in table.to_batches(max_chunksize=777)]
    return {
        "table": core.Table.from_arrow(table),
        "reader": core.RecordBatchReader.from_batches(core.Schema.from_arrow(table.schema), batches),
        "batches": iter(batches),
        "batch": core.RecordBatch.from_arrow(table.combine_chunks().to_batches()[0]),
    }


def nanoarrow(table, ratings):
    made, whole = needed("nanoarrow"), table.combine_chunks().to_batches()[0]
    return {
        "stream": made.ArrayStream(table), "array": made.Array(whole), "one array": made.c_array(whole),
        "arrays": (made.c_array(batch) for batch in table.to_batches(max_chunksize=777)),
    }


def datafusion(table, ratings):
    context = needed("datafusion").SessionContext()
    context.register_csv("ratings", ratings)
    ask = "select * from ratings"
    return {"frame": context.sql(ask), "batches": context.sql(ask).execute_stream()}


def deltalake(table, ratings):
    made = needed("deltalake")
    made.write_deltalake("delta", table)
    asked = made.QueryBuilder().register("ratings", made.DeltaTable("delta")).execute("select * from ratings")
    return {"query": asked, "dataset": made.DeltaTable("delta").to_pyarrow_dataset()}


def pyiceberg(table, ratings):
    home = pathlib.Path("iceberg").absolute()
    home.mkdir()
    catalog = needed("pyiceberg.catalog.sql").SqlCatalog("home", uri=f"sqlite:///{home}/c.db", warehouse=f"file://{home}")
    catalog.create_namespace("data")
    made = catalog.create_table("data.ratings", schema=table.schema)
    made.append(table)
    return {"reader": made.scan().to_arrow_batch_reader()}


def others(table, ratings):
    lazy = polars.scan_csv(ratings)
    ask = f"select * from read_csv('{ratings}')"
    return {
        "lazy": lazy, "lazy batches": lazy.collect_batches(), "relation": duckdb.connect().sql(ask),
        "relation's reader": duckdb.connect().sql(ask).to_arrow_reader(1000), "dataset": needed("pyarrow.dataset").dataset(table),
        "generator": (batch for batch in table.to_batches(max_chunksize=1234)),
    }


@pytest.mark.parametrize("made", [arro3, nanoarrow, datafusion, deltalake, pyiceberg, others])
def test_whatever_hands_on_arrow_gives_the_same_bytes(ratings, reference, made):
    for name, source in made(csv.read_csv(ratings), ratings).items():
        assert written(source) == reference, name


def test_text_of_every_kind_gives_the_same_bytes():
    users = [f"u{number % 37}" for number in range(2000)]
    items = [f"i{number % 53}" for number in range(2000)]
    values = [float(number % 5) for number in range(2000)]
    options = {"modes": ["user", "item"], "value": "stars", "bins": None}
    table = pyarrow.table({"user": users, "item": items, "stars": values})
    reference = written(table, **options)
    kinds = [pyarrow.large_string(), pyarrow.string_view(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())]
    for kind in kinds:
        cast = table.set_column(0, "user", table["user"].cast(kind) if "dict" not in str(kind)
                                else table["user"].dictionary_encode())
        assert written(cast, **options) == reference, kind
    frame = polars.DataFrame(table).with_columns(polars.col("item").cast(polars.Categorical))
    assert written(frame, **options) == reference
    assert written(pandas.DataFrame({"user": pandas.Categorical(users), "item": items, "stars": values}),
                   **options) == reference
    assert written({"user": np.array(users, dtype=object), "item": np.array(items), "stars": values},
                   **options) == reference


def test_indices_from_scipy_numpy_and_frames_give_the_same_bytes():
    generator = np.random.default_rng(1)
    dense = np.where(generator.random((40, 30)) < 0.4, generator.normal(size=(40, 30)), np.nan)
    at = np.argwhere(~np.isnan(dense))
    values = dense[tuple(at.T)]
    names = ["row", "column"]
    table = {"row": at[:, 0], "column": at[:, 1], "value": values}
    options = {"modes": names, "value": "value", "bins": None, "dims": dense.shape, "zero_based": True}
    reference = written(polars.DataFrame(table), **options)
    made = {
        "coo": tf.Dataset.from_coo(at, values, dense.shape, modes=names, progress=False),
        "tuple": tf.Dataset.from_coo(tuple(at.T), values, dense.shape, modes=names, progress=False),
        "scipy": tf.Dataset.from_scipy(
            sparse.coo_array((values, tuple(at.T)), shape=dense.shape).tocsr(), progress=False),
        "dense": tf.Dataset.from_dense(dense, modes=names, progress=False),
        "mask": tf.Dataset.from_dense(np.nan_to_num(dense), np.isnan(dense), modes=names, progress=False),
        "masked": tf.Dataset.from_dense(np.ma.masked_invalid(dense), modes=names, progress=False),
    }
    for name, dataset in made.items():
        assert contents(dataset.path) == reference, name
        assert dataset.shape == (40, 30) and dataset.nnz == len(values)


def test_validation_and_test_may_be_frames(ratings):
    frame = polars.read_csv(ratings)
    parts = frame[:16_000], frame[16_000:18_000], frame[18_000:]
    data = tf.Dataset.write("parts.tenfill", parts[0], validation=parts[1], test=parts[2], **OPTIONS)
    assert sum(data.entries.values()) == data.nnz == 20_000 - data._about.get("duplicates", 0)
    assert data.entries["validation"] == 2000


def test_entries_come_back(data, ratings):
    frame = polars.concat([polars.DataFrame(table) for split in ("train", "validation", "test")
                           for table in data.to_batches(split)])
    assert len(frame) == data.nnz == 20_000
    back = frame.sort(MODES).select("userId", "movieId", "rating")
    told = polars.read_csv(ratings).sort("userId", "movieId").select("userId", "movieId", "rating")
    assert back.sort("userId", "movieId", "rating").equals(told.sort("userId", "movieId", "rating"))
    assert pyarrow.RecordBatchReader.from_stream(data.to_batches("test")).read_all().num_rows == data.entries["test"]


def test_names_with_commas(ratings):
    frame = polars.read_csv(ratings).rename({"userId": "user, or what"})
    options = OPTIONS | {"modes": ["user, or what", "movieId"], "bins": None}
    assert tf.Dataset.write("commas.tenfill", frame, **options).modes == ["user, or what", "movieId"]


def test_new_rows_are_appended_and_entries_written(tmp_path):
    rows = [(f"u{user}", film, float(user * film % 5)) for user in range(12) for film in range(8)]

    def table(part):
        return dict(zip(("user", "film", "value"), map(list, zip(*part))))

    all_at_once = tf.Dataset.write(tmp_path / "all", table(rows), modes=["user", "film"], value="value", progress=False)
    old = tf.Dataset.write(tmp_path / "old", table(rows[:60]), modes=["user", "film"], value="value", progress=False)
    new = old.append(table(rows[60:]), tmp_path / "new", progress=False)
    assert new.entries == all_at_once.entries and new.shape == (12, 8) and old.nnz == 60
    assert old.append(table(rows[60:]), in_place=True, split="none", progress=False).nnz == len(rows)
    assert new.write_entries(tmp_path / "entries.csv", split="all") == len(rows)
    lines = (tmp_path / "entries.csv").read_text().splitlines()
    assert lines[0] == "user,film,value,split" and len(lines) == len(rows) + 1
    with pytest.raises(tf.UsageError, match="out"):
        old.append(table(rows[60:]), progress=False)
    with pytest.raises(tf.UsageError, match="`nonsense` is no option of append"):
        old.append(table(rows[60:]), tmp_path / "no", nonsense=1, progress=False)
