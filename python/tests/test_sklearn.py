"""The estimator in the tools of scikit-learn."""

import numpy as np
import pytest
from conftest import needed

import tenfill as tf

needed("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_validate  # noqa: E402

from tenfill.sklearn import TuckerCompletion  # noqa: E402


@pytest.fixture(scope="module")
def entries():
    generator = np.random.default_rng(3)
    factors = [generator.normal(size=(size, 2)) for size in (40, 30)]
    X = np.stack([generator.integers(0, 40, 2000), generator.integers(0, 30, 2000)], axis=1)
    y = (factors[0][X[:, 0]] * factors[1][X[:, 1]]).sum(axis=1) + 0.01 * generator.normal(size=2000)
    return X, y


def test_cross_validation_clone_and_search(entries):
    X, y = entries
    estimator = TuckerCompletion(rank=3, max_iterations=60, threads=1)
    assert clone(estimator).get_params() == estimator.get_params()
    scores = cross_validate(estimator, X, y, cv=3)["test_score"]
    assert scores.min() > 0.8
    search = GridSearchCV(estimator, {"rank": [1, 3]}, cv=2).fit(X, y)
    assert search.best_params_ == {"rank": 3}


def test_frames_unknown_ids_and_bad_input(entries):
    polars = needed("polars")
    X, y = entries
    frame = polars.DataFrame({"user": X[:, 0], "item": X[:, 1]})
    fitted = TuckerCompletion(rank=3, max_iterations=40).fit(frame, y, sample_weight=np.ones(len(y)))
    assert fitted.score(frame, y) > 0.8
    stranger = fitted.predict(polars.DataFrame({"user": [999], "item": [3]}))
    assert np.isfinite(stranger).all()
    with pytest.raises(tf.UsageError, match="those of `fit` were user, item"):
        fitted.predict(X)
    with pytest.raises(tf.UsageError, match="an array of integers"):
        TuckerCompletion().fit(X.astype(float), y)
