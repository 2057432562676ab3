#!/usr/bin/env python3
"""Rebuilds the predictions of `tenfill predict` from an export, with numpy and pyarrow alone.

    python3 tests/python/rebuild.py EXPORTED ANSWERS.parquet

EXPORTED was written by `tenfill export` as parquet or npy, ANSWERS by `tenfill predict`. Fails where a
value of a known row differs by more than 1e-12.
"""

import json
import math
import pathlib
import sys
from datetime import datetime, timezone

import numpy as np
import pyarrow.parquet as pq


def read_mode(folder, mode):
    """Labels, known, bias, factor and first of a mode."""
    files = mode["files"]
    if "labels" in files:  # npy
        load = lambda name: np.load(folder / files[name])
        first = load("first") if "first" in files else None
        return load("labels"), load("known"), load("bias"), load("factor"), first
    table = pq.read_table(folder / files["factor"])
    column = lambda name: table[name].to_numpy(zero_copy_only=False)
    factor = np.stack([column(f"u{k + 1}") for k in range(mode["rank"])], axis=1)
    first = column("first") if "first" in table.column_names else None
    return column("id"), column("known"), column("bias"), factor, first


def index_of(mode, places, text):
    """The index of an id as it stands in a file; times by their bin."""
    if "bins" not in mode:
        return places.get(str(text))
    try:
        number = float(text)
    except ValueError:
        number = datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    bins = mode["bins"]
    return min(max(math.floor((number - bins["origin"]) / bins["width"]), 0), mode["dim"] - 1)


def bucket(since):
    if since <= 0:
        return 0
    k = math.floor(math.log2(since))
    return 1 + 2 * k + (since >= 2 ** (k + 0.5))


def excess(z):
    """E(max(0, z + e)) for a standard normal e."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) + z * math.erfc(-z / math.sqrt(2)) / 2


def clip(value, least, most, ends):
    if ends:
        s = ends["noise"]
        value += s * (excess((least - value) / s) - excess((value - most) / s))
    return min(max(value, least), most)


def read_core(folder, about):
    """Indices of the core's numbers, a row each, and the numbers."""
    file, rank = folder / about["core"], about["rank"]
    if file.suffix == ".npy":
        core = np.load(file)
        if about["core_sparse"]:
            return core[:, :-1].astype(int), core[:, -1]
        return np.argwhere(np.ones(rank, dtype=bool)), core.reshape(-1)
    table = pq.read_table(file)
    at = np.stack([table[f"c{mode + 1}"].to_numpy() - 1 for mode in range(len(rank))], axis=1)
    return at, table["value"].to_numpy()


def read_pairs(folder, about, names, places):
    """The modes of every bias of pairs of ids, and the biases by their indices."""
    for pair in about.get("pair_biases", []):
        modes, file = [names.index(name) for name in pair["modes"]], folder / pair["file"]
        if file.suffix == ".npy":
            yield modes, dict(np.ndenumerate(np.load(file)))
            continue
        rows = pq.read_table(file).to_pylist()
        at = lambda row: tuple(places[mode][str(row[name])] for mode, name in zip(modes, ["id1", "id2"]))
        yield modes, {at(row): row["bias"] for row in rows}


def main():
    folder, answers = map(pathlib.Path, sys.argv[1:3])
    about = json.loads((folder / "model.json").read_text())
    modes = about["modes"]
    names = [mode["name"] for mode in modes]
    parts = [read_mode(folder, mode) for mode in modes]
    places = [{str(label): at for at, label in enumerate(part[0])} for part in parts]
    core_at, core = read_core(folder, about)
    pairs = list(read_pairs(folder, about, names, places))
    worst = checked = 0
    for row in pq.read_table(answers).to_pylist():
        at = [index_of(mode, place, row[mode["name"]]) for mode, place in zip(modes, places)]
        known = all(
            index is not None and part[1][index] or mode["held"] for index, part, mode in zip(at, parts, modes)
        )
        assert known == row["known"], row
        if not known:
            continue
        products = [part[3][index][core_at[:, mode]] for mode, (part, index) in enumerate(zip(parts, at))]
        value = float(np.prod(products, axis=0) @ core)
        value += sum(biases.get((at[a], at[b]), 0.0) for (a, b), biases in pairs)
        value += about["offset"] + sum(part[2][index] for part, index in zip(parts, at))
        if about["time_bias"]:
            time = about["time_bias"]
            of, clock = names.index(time["of"]), names.index(time["clock"])
            value += time["values"][bucket(at[clock] - parts[of][4][at[of]])]
        if about["range"]:
            value = clip(value, *about["range"], about["ends"])
        worst = max(worst, abs(value - row["prediction"]))
        checked += 1
    assert checked > 0, "no row is known"
    assert worst <= 1e-12, f"the largest difference is {worst}"
    print(f"{checked} predictions rebuilt, the largest difference is {worst:.1e}")


if __name__ == "__main__":
    main()
