#!/usr/bin/env python3
"""Measures what a completed run is used for; every figure of docs/figures.md's section comes from here.

    tools/measure-use.py fold-in      users held back and folded in, beside a model trained with them
    tools/measure-use.py recommend    the ten best of 10681 items for each of 71567 users
    tools/measure-use.py predict      a value for each of ten million rows
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys


def tenfill(arguments, *words, quiet=True):
    command = [arguments.tenfill, *map(str, words), "--json"] + (["--quiet"] if quiet else [])
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(command)} failed")
    return json.loads(ran.stdout.splitlines()[-1])


def fold_in(arguments):
    """A tenth of the users is held back; of their entries four fifths are folded in, one fifth scored."""
    folder = arguments.dir
    data = arguments.data
    if data is None:
        data = folder / "ratings.csv"
        tenfill(arguments, "synth", "-o", data, "--kind", "ratings", "--dims", "6000,4000,200",
                "--entries", 1000000, "--test", 0, "--force")
    files = {name: open(folder / f"{name}.csv", "w") for name in ("old", "new", "held", "all")}
    chance = random.Random(1)
    held_back = {}
    with open(data) as rows:
        header = next(rows)
        user_column = header.strip().split(",").index("userId")
        for file in files.values():
            file.write(header)
        for row in rows:
            user = row.split(",")[user_column]
            if user not in held_back:
                held_back[user] = chance.random() < 0.1
            name = "old" if not held_back[user] else "new" if chance.random() < 0.8 else "held"
            files[name].write(row)
            if name != "held":
                files["all"].write(row)
    for file in files.values():
        file.close()
    print(f"{sum(held_back.values())} of {len(held_back)} users held back")
    print(f"{'settings':34} {'folded in':>10} {'trained':>10} {'ratio':>7} {'fold-in s':>10}")
    for settings in arguments.settings:
        for name in ("old", "all"):
            tenfill(arguments, "complete", folder / f"{name}.csv", "-o", folder / f"run-{name}", "--force",
                    *settings.split())
        took = tenfill(arguments, "fold-in", folder / "run-old", folder / "new.csv",
                       "-o", folder / "run-folded", "--force", "--mode", "userId")
        folded, trained = (
            tenfill(arguments, "evaluate", folder / run, "--on", folder / "held.csv")["rmse"]
            for run in ("run-folded", "run-all"))
        print(f"{settings:34} {folded:10.4f} {trained:10.4f} {folded / trained:7.4f} {took['seconds']:10.2f}")


def big_run(arguments):
    """A run on users x items x weeks of the size of MovieLens-10M."""
    folder = arguments.dir
    tenfill(arguments, "synth", "-o", folder / "big.tenfill", "--kind", "ratings",
            "--dims", "71567,10681,731", "--entries", 10000000, "--force")
    tenfill(arguments, "complete", folder / "big.tenfill", "-o", folder / "big", "--rank", arguments.rank,
            "--max-iterations", 5, "--force", "--bias", "modes", "--penalty", 0.01, "--no-grow")
    return folder / "big"


def recommend(arguments):
    run = big_run(arguments)
    for output in ("best.parquet", "best.csv"):
        took = tenfill(arguments, "recommend", run, "--all=userId", "--rank-mode", "movieId",
                       "--top", 10, "-o", arguments.dir / output, "--force")
        print(f"{output}: {took['rows']} rows for {took['questions']} ids, {took['seconds']:.1f} s wall, "
              f"{took['cpu_seconds']:.1f} s CPU, peak {took['peak_anon_bytes'] / 2**20:.0f} MB anonymous")


def predict(arguments):
    run = big_run(arguments)
    chance = random.Random(1)
    names = [mode["name"] for mode in json.loads((run.parent / "big.tenfill/manifest.json").read_text())["modes"]]
    with open(arguments.dir / "queries.csv", "w") as file:
        file.write(",".join(names) + "\n")
        for _ in range(10_000_000):
            file.write(f"{chance.randrange(71567) + 1},{chance.randrange(10681) + 1},{chance.randrange(731) + 1}\n")
    for output in ("answers.parquet", "answers.csv"):
        took = tenfill(arguments, "predict", run, arguments.dir / "queries.csv", "-o", arguments.dir / output, "--force")
        print(f"{output}: {took['rows']} rows, {took['seconds']:.1f} s wall, {took['cpu_seconds']:.1f} s CPU, "
              f"peak {took['peak_anon_bytes'] / 2**20:.0f} MB anonymous")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["fold-in", "recommend", "predict"])
    parser.add_argument("--tenfill", default="target/release/tenfill")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("target/use"))
    parser.add_argument("--data", type=pathlib.Path, help="fold-in: a ratings CSV with the column userId")
    parser.add_argument("--rank", default="10,10,4", help="recommend, predict: the rank")
    parser.add_argument("--settings", nargs="+", default=["--rank auto", "--rank 4,4,4 --grow", "--rank 4,4,2 --bias none --penalty 0 --no-grow --metric preconditioned --max-iterations 60"],
                        help="fold-in: options of complete, one set per argument")
    arguments = parser.parse_args()
    arguments.dir.mkdir(parents=True, exist_ok=True)
    {"fold-in": fold_in, "recommend": recommend, "predict": predict}[arguments.what](arguments)


if __name__ == "__main__":
    main()
