"""Tables and arrays with holes, filled."""

import numpy as np
import pytest
from conftest import needed

import tenfill as tf

polars = needed("polars")


def readings():
    station, day, hour = np.indices((6, 12, 10))
    truth = 20 + station + 3 * np.sin(hour / 2) + (1 + station / 4) * np.cos(day / 2)
    holes = np.random.default_rng(1).random(truth.shape) < 0.25
    return station, day, hour, truth, holes


def test_a_frame_comes_back_with_its_holes_filled():
    station, day, hour, truth, holes = readings()
    values = np.where(holes, np.nan, truth).ravel()
    frame = polars.DataFrame({"station": station.ravel(), "day": day.ravel(), "hour": hour.ravel(), "pm10": values})
    done = tf.fill(frame, out="filled.parquet", modes=["station", "day", "hour"], value="pm10", progress=False)
    assert (done.rows, done.filled, done.added) == (truth.size, holes.sum(), 0)
    assert done.held_out["rmse"] < done.held_out["mean_rmse"]
    filled = polars.read_parquet("filled.parquet")
    assert filled.columns == ["station", "day", "hour", "pm10", "filled"]
    assert (filled["filled"].to_numpy() == holes.ravel()).all()
    found = filled["pm10"].to_numpy()
    assert (found[~holes.ravel()] == truth.ravel()[~holes.ravel()]).all()
    # A few hundred values tell the cycles: far nearer than their spread.
    missed = (found - truth.ravel())[holes.ravel()]
    assert np.sqrt((missed**2).mean()) < 0.2 * truth.std()


def test_standard_deviations_stand_beside_what_was_filled():
    station, day, hour, truth, holes = readings()
    noisy = truth + np.random.default_rng(2).normal(0, 0.4, truth.shape)
    values = np.where(holes, np.nan, noisy)
    frame = polars.DataFrame(
        {"station": station.ravel(), "day": day.ravel(), "hour": hour.ravel(), "pm10": values.ravel()}
    )
    done = tf.fill(frame, out="filled.parquet", modes=["station", "day", "hour"], value="pm10", sd=True, progress=False)
    filled = polars.read_parquet("filled.parquet")
    assert done.sd and filled.columns[-2:] == ["filled", "sd"]
    assert (filled["sd"].is_null().to_numpy() == ~holes.ravel()).all()
    assert done.held_out["biases_rmse"] < done.held_out["mean_rmse"]
    np.save("in.npy", values)
    assert tf.fill("in.npy", out="out.npy", sd=True, progress=False).sd
    assert (np.isnan(np.load("out.sd.npy")) == ~holes).all()


def test_an_array_comes_back_as_it_was():
    *_, truth, holes = readings()
    np.save("in.npy", np.asfortranarray(np.where(holes, np.nan, truth).astype(np.float32)))
    done = tf.fill("in.npy", out="out.npy", keep="run", progress=False)
    before, after = np.load("in.npy"), np.load("out.npy")
    assert after.dtype == np.float32 and after.shape == truth.shape and after.flags.f_contiguous
    assert done.filled == holes.sum() and not np.isnan(after).any()
    assert (after[~holes] == before[~holes]).all()
    tf.fill("in.npy", out="again.npy", run="run", progress=False)
    assert (np.load("again.npy") == after).all()
    with pytest.raises(tf.InputError, match="nothing to fill"):
        tf.fill("out.npy", out="third.npy", progress=False)
