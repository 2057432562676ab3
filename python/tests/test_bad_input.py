"""What bad input gets: the sentences of the command, as exceptions; never a panic."""

import os
import threading

import numpy as np
import pytest
from conftest import command, needed

import tenfill as tf
from tenfill import _errors, _native

pandas = needed("pandas")
polars = needed("polars")
pyarrow = needed("pyarrow")

OPTIONS = {"modes": ["a", "b"], "value": "v", "progress": False}


def write(source, **options):
    return tf.Dataset.write("bad.tenfill", source, **(OPTIONS | options))


GOOD = {"a": [1, 2, 3], "b": [1, 1, 2], "v": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("source", "what", "line"),
    [
        (GOOD | {"v": [1.0, float("inf"), 3.0]}, "v is inf", 2),
        (GOOD | {"a": [1.0, 2.0, float("nan")]}, "a is NaN", 3),
        (GOOD | {"v": ["one", "2", "3"]}, "which is no number", 1),
        (GOOD | {"a": ["x", None, "z"]}, "a is null", 2),
        (GOOD | {"a": ["x", "", "z"]}, "a is empty", 2),
        (GOOD | {"v": np.array(["2020-01-01"] * 3, dtype="datetime64[s]")}, "is a time, not a number", None),
        ({"a": [1], "b": [1]}, "there is no column 'v': the columns are a, b", None),
        ({"a": [], "b": [], "v": []}, "no rows", None),
        ({}, "there are no columns", None),
        (GOOD | {"a": [{}, [], 3]}, "holds objects of the type dict", None),
        (GOOD | {"a": np.array([1, 2, 2**64 - 1], dtype=np.uint64)}, "above 2", None),
    ],
)
def test_rows_that_cannot_be_used(source, what, line):
    with pytest.raises(tf.InputError, match=what) as caught:
        write(source)
    assert caught.value.path == "<stream>" and caught.value.line == line
    if source and all(len(column) for column in source.values()) and "objects" not in what:
        with pytest.raises(tf.InputError):
            write(pandas.DataFrame(source))


def test_what_has_no_value_is_left_out_or_refused():
    holes = GOOD | {"v": [1.0, float("nan"), 3.0]}
    assert write(holes, split="none").nnz == 2
    with pytest.raises(tf.InputError, match="v is missing: 'NaN'") as caught:
        write(holes, empty="error", force=True)
    assert caught.value.line == 2
    assert write(GOOD, where=["v > 1", "a != 3"], split="none", force=True).nnz == 1
    with pytest.raises(tf.UsageError, match="is no condition"):
        write(GOOD, where="v")


def test_the_sentence_is_that_of_the_command():
    with open("bad.csv", "w") as file:
        file.write("a,b,v\n1,1,1\n2,1,x\n")
    told = command("convert", "bad.csv", "-o", "x.tenfill", "--modes", "a,b", "--value", "v").stderr
    with pytest.raises(tf.InputError) as caught:
        write("bad.csv")
    assert told.strip() == f"tenfill: {caught.value}"
    assert (caught.value.path, caught.value.line) == ("bad.csv", 3)


def test_frames_that_are_odd():
    twice = pandas.DataFrame([[1, 2, 3.0, 4]], columns=["a", "b", "v", "a"])
    with pytest.raises(tf.InputError, match="two columns have the name 'a'"):
        write(twice)
    table = pyarrow.table([[1], [2], [3.0], [4]], names=["a", "b", "v", "a"])
    with pytest.raises(tf.InputError, match="two columns have the name 'a'"):
        write(table)
    nested = pyarrow.table({"a": [[1]], "b": [1], "v": [1.0]})
    with pytest.raises(tf.InputError, match="column 'a' has the type"):
        write(nested)
    with pytest.raises(tf.UsageError, match="different lengths"):
        write({"a": [1], "b": [1, 2], "v": [1.0]})
    with pytest.raises(tf.UsageError, match="2 dimensions"):
        write({"a": np.ones((2, 2)), "b": [1, 2], "v": [1.0, 2.0]})
    with pytest.raises(tf.UsageError, match="cannot be taken from int"):
        write(3)
    with pytest.raises(tf.UsageError, match="a batch is a frame"):
        write([1, 2])


def test_streams_that_fail():
    schema = pyarrow.schema([("a", pyarrow.int64()), ("b", pyarrow.int64()), ("v", pyarrow.float64())])
    good = pyarrow.record_batch([[1], [2], [3.0]], schema=schema)

    def failing():
        yield good
        raise RuntimeError("the tape is torn")

    with pytest.raises(tf.InputError, match="failed after 1 rows.*the tape is torn"):
        write(pyarrow.RecordBatchReader.from_batches(schema, failing()))
    # What an iterator of our own raises comes through as it is.
    with pytest.raises(RuntimeError, match="the tape is torn"):
        write(failing())
    duckdb = needed("duckdb")
    connection = duckdb.connect()
    closed = connection.sql("select 1 as a, 2 as b, 3.0 as v")
    connection.close()
    with pytest.raises(duckdb.Error):
        write(closed)
    used = pyarrow.RecordBatchReader.from_batches(schema, iter([good]))
    used.read_all()
    with pytest.raises(tf.InputError, match="no rows"):
        write(used)
    other = good.rename_columns(["a", "b", "w"])
    with pytest.raises(tf.InputError, match="other columns"):
        write(iter([good, other]))
    with pytest.raises(tf.InputError, match="other columns"):
        write(iter([{"a": [1], "b": [2], "v": [1.0]}, {"a": ["x"], "b": [2], "v": [1.0]}]))


def test_an_array_that_is_changed_meanwhile_gives_what_it_held_when_it_was_read():
    values = np.ones(300_000)
    table = {"a": np.arange(300_000), "b": np.arange(300_000) % 9, "v": values}

    def rows():
        yield table
        values[:] = np.nan
        yield {name: column[:1] + 1 for name, column in table.items() if name != "v"} | {"v": np.array([2.0])}

    assert write(rows()).nnz in (300_000, 300_001)


def test_coordinates_of_a_wrong_shape():
    make = tf.Dataset.from_coo
    for coords, values, shape, what in (
        (np.zeros((3, 2), int), np.ones(4), None, "there are 4 values"),
        (np.zeros(3, int), np.ones(3), None, "1 dimensions"),
        (np.zeros((3, 2)), np.ones(3), None, "must be integers"),
        (np.zeros((3, 2), int), np.ones(3), (4, 4, 4), "`shape` has 3 dimensions"),
        (np.array([[0, 5]]), np.ones(1), (4, 4), "mode2"),
        (np.array([[0, -1]]), np.ones(1), (4, 4), "mode2"),
        (np.zeros((0, 2), int), np.ones(0), (4, 4), "no rows"),
        (np.zeros((0, 2), int), np.ones(0), None, "no rows"),
    ):
        with pytest.raises(tf.Error, match=what):
            make(coords, values, shape, progress=False)
    with pytest.raises(tf.UsageError, match="`mask` has the shape"):
        tf.Dataset.from_dense(np.ones((3, 3)), np.ones(3))
    with pytest.raises(tf.InputError, match="no rows"):
        tf.Dataset.from_dense(np.full((3, 3), np.nan), progress=False)


def test_requests_that_cannot_be_met(data):
    for options, kind, what in (
        ({"rank": "many"}, tf.UsageError, "invalid value 'many' for `rank`"),
        ({"rank": (2, 2)}, tf.UsageError, "rank"),
        ({"rank": 4, "memory": "20M", "max_iterations": -1}, tf.UsageError, "max_iterations"),
        ({"rank": 4, "tolerance": -1.0}, tf.UsageError, "`tolerance` -1"),
        ({"rank": "auto", "metric": "damped"}, tf.UsageError, "`rank` auto is for sweeps"),
        ({"rank": 4, "bias": "modes"}, tf.UsageError, "give both `bias` and `penalty`"),
        ({"grow": True}, tf.UsageError, "`grow` was removed in this version: sweeps have taken the place"),
        ({"rank": 4, "grow": False}, tf.UsageError, "`grow=False` was removed in this version: a rank that"),
        ({"refine": True}, tf.UsageError, "`refine` was removed in this version"),
        ({"refine": False}, tf.UsageError, "`refine=False` was removed in this version"),
        ({"rank": 4, "algorithm": "geomcg", "metric": "damped"}, tf.UsageError, "leave out `metric`"),
        ({"rank": 4, "memory": 1000}, tf.MemoryRefused, "`memory`"),
    ):
        with pytest.raises(kind, match=what):
            tf.complete(data, out="run", progress=False, **options)
    with pytest.raises(TypeError, match="nonsense"):
        tf.complete(data, out="run", nonsense=1)
    # What was removed says the same as on the command line.
    for flag, options in (("--grow", {"grow": True}), ("--no-grow", {"grow": False}), ("--refine", {"refine": True})):
        said = command("complete", data.path, "-o", "run", flag).stderr
        with pytest.raises(tf.UsageError) as caught:
            tf.complete(data, out="run", progress=False, **options)
        assert _errors.in_keywords(said).strip().endswith(str(caught.value).split(" was removed")[1])
    tf.complete(data, rank=2, out="run", max_iterations=2, progress=False)
    with pytest.raises(tf.UsageError, match="exists already.*`force`"):
        tf.complete(data, rank=2, out="run", progress=False)


def test_files_that_are_damaged(data):
    tf.complete(data, rank=2, out="run", max_iterations=2, progress=False)
    with open("run/model/model.bin", "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 50)
    with pytest.raises(tf.FormatError, match="damaged"):
        tf.load("run")
    with pytest.raises(tf.InputError):
        tf.load("nowhere")
    with pytest.raises(tf.InputError):
        tf.Dataset.open("nowhere")


def test_questions_that_cannot_be_asked(model):
    with pytest.raises(tf.InputError, match="no column 'movieId' for the mode movieId"):
        model.predict({"userId": [1], "timestamp": [963619200]})
    with pytest.raises(tf.InputError, match="the model does not know userId '77777'") as caught:
        model.predict({"userId": [1, 77777], "movieId": [25, 25], "timestamp": [963619200] * 2}, strict=True)
    assert caught.value.line == 2
    with pytest.raises(tf.UsageError, match="takes frames and streams"):
        model.predict("questions.csv")
    empty = model.predict(polars.DataFrame({"userId": [], "movieId": [], "timestamp": []},
                                           schema={"userId": polars.Int64, "movieId": polars.Int64,
                                                   "timestamp": polars.Int64}))
    assert len(empty) == 0 and empty["prediction"].size == 0


def test_flags_become_keywords():
    for told, expected in (
        ("--max-iterations 3 and '--rank <R,R,...|auto>'", "`max_iterations` 3 and `rank`"),
        ("add `bias` none `no_clip`", "add `bias` none `clip=False`"),
        ("give another place with -o or `temp_dir`", "give another place with `out` or `temp_dir`"),
        ("`tenfill resume run` goes on, --no-such-flag stays", "`tenfill resume run` goes on, --no-such-flag stays"),
        ("`bin` names 'x'", "`bins` names 'x'"),
    ):
        assert _errors.in_keywords(told) == expected


@pytest.mark.skipif(not hasattr(_native, "_panic") and not os.environ.get("CI"), reason="built without test-hooks")
@pytest.mark.parametrize("place", ["work", "pool", "here"])
def test_a_panic_is_an_exception_that_says_how_to_report_it(capfd, place):
    with pytest.raises(tf.InternalError, match="on purpose.*Please report it"):
        _native._panic(place)
    assert capfd.readouterr().err == ""


def test_what_only_claims_to_be_arrow():
    table = pyarrow.table({"a": [1, 2], "b": [1, 1], "v": [1.0, 2.0]})

    class Claims:
        def __init__(self, name, made):
            setattr(type(self), name, lambda self, requested_schema=None: made)

    def claims(name, made):
        return type("Claims", (Claims,), {})(name, made)

    batch = claims("__arrow_c_array__", table.to_batches()[0].__arrow_c_array__())
    stream = claims("__arrow_c_stream__", table.__arrow_c_stream__())
    for source in (batch, stream):
        assert write(source, split="none", force=True).nnz == 2
        # What was taken from it is gone.
        with pytest.raises(tf.InputError, match="this is no table .*(taken|released)"):
            write(source, force=True)
    for source in (
        claims("__arrow_c_stream__", 3), claims("__arrow_c_array__", 3), claims("__arrow_c_array__", (3, 4)),
        pyarrow.array([1, 2]), pyarrow.chunked_array([[1, 2]]), polars.Series("a", [1, 2]),
    ):  # fmt: skip
        with pytest.raises(tf.InputError, match="this is no table"):
            write(source, force=True)


def test_a_frame_that_another_thread_changes_is_read_as_it_is_found():
    rows = 400_000
    frame = pandas.DataFrame({"a": np.arange(rows) % 5000, "b": np.arange(rows) // 5000, "v": np.ones(rows)})
    going = True

    def change():
        number = 0.0
        while going:
            number += 1
            frame.loc[:, "v"] = number

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert write(frame, split="none").nnz == rows
    finally:
        going = False
        thread.join()


@pytest.mark.parametrize("made", [np.array([1 + 2j]), np.array([1], dtype="m8[s]"), np.array([b"x"])])
def test_columns_of_types_that_mean_nothing(made):
    with pytest.raises(tf.InputError, match="column 'a' has the type"):
        write({"a": made, "b": [1], "v": [1.0]})


@pytest.mark.parametrize("said", [{"split": "none"}, {"modes": ["user", "item"]}, {"value": "stars"}])
def test_options_of_conversions_are_refused_beside_a_dataset(data, said):
    name = next(iter(said))
    with pytest.raises(tf.Error, match=f"this is a dataset already, and .*{name}.* says how a file is converted"):
        tf.complete(data, out="run", max_iterations=1, **said)
    assert not os.path.exists("run")


@pytest.mark.parametrize("kind", [list, tuple, set, iter, np.array])
def test_options_that_may_be_given_often_take_all_that_can_be_gone_through(kind):
    from tenfill._options import arguments

    given = {"missing": kind([-999, -1]), "where": kind(["v > 0", "v < 9"])}
    words = arguments("fill", [], given)
    assert sorted(words[1:]) == sorted(["--missing=-999", "--missing=-1", "--where=v > 0", "--where=v < 9"])
    assert arguments("fill", [], {"missing": "?"})[1:] == ["--missing=?"]
    assert arguments("fill", [], {"missing": np.float64(-999.0)})[1:] == ["--missing=-999.0"]
    assert arguments("fill", [], {"missing": np.array(-999)})[1:] == ["--missing=-999"]
    if kind is not set:
        assert arguments("fill", [], {"modes": kind(["b", "a"])})[1:] == ["--modes=b,a"]
