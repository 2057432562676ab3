#!/usr/bin/env python3
"""Biased matrix factorisation by cmfrec and scikit-surprise on the splits of a dataset.

usage: biased_mf.py FOLDER [--k 10,20,50] [--programs cmfrec,surprise]

FOLDER holds train.csv, validation.csv and test.csv, as `tenfill-bench export`
writes them: user and item in the first two columns, the value last. For each
k the regularisation is tuned on validation (a geometric grid, then its finer
neighbours; that of the biases the same, of their own, or all by counts), and
the test error of the best is printed as a line of JSON. For scikit-surprise's SVD, regularisation and number
of epochs are tuned. Needs cmfrec and scikit-surprise (pip install both).
"""
import argparse, json, os
import numpy as np


def read(folder, name):
    rows = np.loadtxt(os.path.join(folder, name + ".csv"), delimiter=",", skiprows=1, ndmin=2)
    return rows[:, 0].astype(int), rows[:, 1].astype(int), rows[:, -1]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--k", default="10,20,50")
    p.add_argument("--programs", default="cmfrec,surprise")
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

    def fit(k, lam, bias):
        """bias: the regularisation of the biases; None for the same, by counts for "scaled"."""
        scaled = bias == "scaled"
        own = lam if bias in (None, "scaled") else [bias, bias, lam, lam, 0.0, 0.0]
        from cmfrec import CMF
        model = CMF(k=k, lambda_=own, scale_lam=scaled, method="als", niter=15, use_cg=False,
                    finalize_chol=False, verbose=False, nthreads=2, random_state=1)
        model.fit(x)
        return errors(model, valid)[0], model

    def by_cmfrec(ks):
        ways = {None: [8.0, 16.0, 32.0], "scaled": [0.08, 0.16, 0.32]}
        for bias in (3.0, 6.0):
            ways[bias] = [8.0, 16.0, 32.0, 64.0]
        # How biases are regularised is chosen at the first k, the rest at every k.
        first = {(bias, lam): fit(ks[0], lam, bias)[0] for bias in ways for lam in ways[bias]}
        bias = min(first, key=first.get)[0]
        for k in ks:
            own = {lam: fit(k, lam, bias) for lam in ways[bias]}
            lam = min(own, key=lambda lam: own[lam][0])
            for finer in (lam / 1.5, lam / 1.22, lam * 1.22, lam * 1.5):
                own[finer] = fit(k, finer, bias)
            lam = min(own, key=lambda lam: own[lam][0])
            mse, mae = errors(own[lam][1], test)
            print(json.dumps({"program": "cmfrec", "k": k, "lambda": lam, "bias": bias or "the same",
                              "validation_mse": own[lam][0], "test_mse": mse, "test_rmse": mse ** 0.5,
                              "test_mae": mae}), flush=True)

    def by_surprise(ks):
        from surprise import Dataset, Reader, SVD
        import pandas as pd
        frame = pd.DataFrame({"u": train[0], "i": train[1], "r": train[2]})
        full = Dataset.load_from_df(frame, Reader(rating_scale=(low, high))).build_full_trainset()

        def svd_errors(model, split):
            e = np.array([model.predict(u, i).est for u, i in zip(split[0], split[1])]) - split[2]
            return float(np.mean(e * e)), float(np.mean(np.abs(e)))

        for k in ks:
            best = None
            for reg in (0.04, 0.07, 0.1, 0.14):
                for epochs in (25, 50, 100):
                    model = SVD(n_factors=k, reg_all=reg, n_epochs=epochs, random_state=1).fit(full)
                    mse = svd_errors(model, valid)[0]
                    if best is None or mse < best[0]:
                        best = (mse, reg, epochs, model)
            mse, mae = svd_errors(best[3], test)
            print(json.dumps({"program": "surprise", "k": k, "lambda": best[1],
                              "bias": "the same, %d epochs" % best[2], "validation_mse": best[0],
                              "test_mse": mse, "test_rmse": mse ** 0.5, "test_mae": mae}), flush=True)

    ks = [int(k) for k in a.k.split(",")]
    if "cmfrec" in a.programs:
        by_cmfrec(ks)
    if "surprise" in a.programs:
        by_surprise(ks)


if __name__ == "__main__":
    main()
