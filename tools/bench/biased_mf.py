#!/usr/bin/env python3
"""Biased matrix factorisation by cmfrec on the splits of a dataset.

usage: biased_mf.py FOLDER [--k 10,20,50]

FOLDER holds train.csv, validation.csv and test.csv, as `tenfill-bench export`
writes them: user and item in the first two columns, the value last. For each
k the regularisation is tuned on validation (a geometric grid, then its finer
neighbours, plain and scaled by counts), and the test error of the best is
printed as a line of JSON. Needs numpy and cmfrec (pip install cmfrec).
"""
import argparse, json, os
import numpy as np
from cmfrec import CMF


def read(folder, name):
    rows = np.loadtxt(os.path.join(folder, name + ".csv"), delimiter=",", skiprows=1, ndmin=2)
    return rows[:, 0].astype(int), rows[:, 1].astype(int), rows[:, -1]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--k", default="10,20,50")
    a = p.parse_args()
    train, valid, test = (read(a.folder, n) for n in ("train", "validation", "test"))
    n_users = 1 + max(s[0].max() for s in (train, valid, test))
    n_items = 1 + max(s[1].max() for s in (train, valid, test))
    low, high = train[2].min(), train[2].max()
    from scipy.sparse import coo_matrix
    x = coo_matrix((train[2], (train[0], train[1])), shape=(n_users, n_items))
    seen_u, seen_i = np.zeros(n_users, bool), np.zeros(n_items, bool)
    seen_u[train[0]] = True
    seen_i[train[1]] = True

    def errors(model, split):
        u, i, y = split
        guess = model.predict(u, i)
        # An id without train entries has no factors here: its bias is zero.
        guess = np.where(np.isfinite(guess), guess, train[2].mean())
        e = np.clip(guess, low, high) - y
        return float(np.mean(e * e)), float(np.mean(np.abs(e)))

    def fit(k, lam, scale):
        model = CMF(k=k, lambda_=lam, scale_lam=scale, method="als", niter=30, use_cg=False,
                    finalize_chol=False, verbose=False, nthreads=2, random_state=1)
        model.fit(x)
        return errors(model, valid)[0], model

    for k in [int(k) for k in a.k.split(",")]:
        best = None
        for scale, grid in ((False, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
                            (True, [0.02, 0.04, 0.08, 0.16, 0.32, 0.64])):
            own = {lam: fit(k, lam, scale) for lam in grid}
            lam = min(own, key=lambda lam: own[lam][0])
            for finer in (lam / 1.5, lam / 1.22, lam * 1.22, lam * 1.5):
                own[finer] = fit(k, finer, scale)
            lam = min(own, key=lambda lam: own[lam][0])
            if best is None or own[lam][0] < best[0]:
                best = (own[lam][0], lam, scale, own[lam][1])
        mse, mae = errors(best[3], test)
        print(json.dumps({"k": k, "lambda": best[1], "scaled": best[2], "validation_mse": best[0],
                          "test_mse": mse, "test_rmse": mse ** 0.5, "test_mae": mae}), flush=True)


if __name__ == "__main__":
    main()
