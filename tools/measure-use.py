#!/usr/bin/env python3
"""Measures what a completed run is used for; every figure of docs/figures.md's section comes from here.

    tools/measure-use.py fold-in      users held back and folded in, beside a model trained with them
    tools/measure-use.py cold         new users of 1, 2, 5, 10 and 20 entries, beside mean, bias and a model trained with them
    tools/measure-use.py calibration  how many held-out values intervals of 50, 80 and 95 % cover
    tools/measure-use.py recommend    the ten best of 10681 items for each of 71567 users
    tools/measure-use.py predict      a value for each of ten million rows
"""

import argparse
import csv
import json
import math
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


def rows_of(arguments, seed):
    """The header and the rows of the data, by user, each user's rows in an order of chance."""
    data = arguments.data
    if data is None:
        data = arguments.dir / "ratings.csv"
        if not data.exists():
            tenfill(arguments, "synth", "-o", data, "--kind", "ratings", "--dims", "6000,4000,200",
                    "--entries", 1000000, "--test", 0, "--force")
    chance, users = random.Random(seed), {}
    with open(data) as file:
        header = next(file)
        column = header.strip().split(",").index("userId")
        for row in file:
            users.setdefault(row.split(",")[column], []).append(row)
    for rows in users.values():
        chance.shuffle(rows)
    return header, users, chance


def write(path, header, rows):
    with open(path, "w") as file:
        file.write(header)
        file.writelines(rows)


def cold(arguments):
    """A tenth of the users, of at least 30 entries, is held back; 1 to 20 of their entries are folded in, and the same
    ten others of each are scored, whatever was folded in."""
    folder = arguments.dir
    print(f"{'seed':>4} {'entries':>7} {'mean':>8} {'stranger':>8} {'bias':>8} {'folded in':>9} {'trained':>8}   covered by 50, 80, 95 %")
    for seed in arguments.seeds:
        header, users, chance = rows_of(arguments, seed)
        new = {user for user, rows in users.items() if len(rows) >= 30 and chance.random() < 0.1}
        old = [row for user, rows in users.items() if user not in new for row in rows]
        write(folder / "old.csv", header, old)
        write(folder / "held.csv", header, [row for user in new for row in users[user][-10:]])
        complete = ["-o", folder / "run-cold", "--rank", "auto", "--split", "90/10/0", "--seed", seed, "--force"]
        tenfill(arguments, "complete", folder / "old.csv", *complete)

        def scored(run):
            found = tenfill(arguments, "evaluate", run, "--on", folder / "held.csv")
            return found, [round(100 * one["covered"], 1) for one in found.get("coverage", [])]

        stranger, _ = scored(folder / "run-cold")
        for count in (1, 2, 5, 10, 20):
            write(folder / "few.csv", header, [row for user in new for row in users[user][:count]])
            tenfill(arguments, "fold-in", folder / "run-cold", folder / "few.csv", "-o", folder / "run-few",
                    "--mode", "userId", "--force")
            # The bias of a user alone, damped as is usual, about what the model says of a stranger.
            answers = folder / "answers.csv"
            tenfill(arguments, "predict", folder / "run-cold", folder / "few.csv", "-o", answers, "--force")
            sums = {}
            with open(answers) as file:
                for row in csv.DictReader(file):
                    mine = sums.setdefault(row["userId"], [0.0, 0])
                    mine[0] += float(row["rating"]) - float(row["prediction"])
                    mine[1] += 1
            tenfill(arguments, "predict", folder / "run-cold", folder / "held.csv", "-o", answers, "--force")
            squares = number = 0
            with open(answers) as file:
                for row in csv.DictReader(file):
                    left, entries = sums[row["userId"]]
                    squares += (float(row["rating"]) - float(row["prediction"]) - left / (entries + 5)) ** 2
                    number += 1
            write(folder / "all.csv", header, old + [row for user in new for row in users[user][:count]])
            tenfill(arguments, "complete", folder / "all.csv", "-o", folder / "run-all", "--rank", "auto",
                    "--split", "90/10/0", "--seed", seed, "--force")
            (folded, covered), (trained, _) = scored(folder / "run-few"), scored(folder / "run-all")
            print(f"{seed:4} {count:7} {stranger['standard_deviation']:8.4f} {stranger['rmse']:8.4f} {(squares / number) ** 0.5:8.4f} "
                  f"{folded['rmse']:9.4f} {trained['rmse']:8.4f}   {covered}", flush=True)


def readings(path, seed):
    """Stations by hour stamp: means, a yearly and a daily cycle, weather that stations share, and noise of 0.5; 60 % of
    the hours and two weeks of every station are missing."""
    chance = random.Random(seed)
    normal, stations, days = chance.gauss, 50, 365
    weather, now = [], [0.0] * 3
    for _ in range(24 * days):
        now = [0.985 * x + normal(0, 0.4) for x in now]
        weather.append(now)
    with open(path, "w") as file:
        file.write("station,stamp,value\n")
        for station in range(stations):
            mean, yearly, daily, phase = normal(10, 4), normal(8, 2), normal(4, 1), normal(0, 0.3)
            loadings = [normal(0, 1) for _ in range(3)]
            away = chance.randrange(24 * (days - 14))
            for hour in range(24 * days):
                if chance.random() < 0.4 and not away <= hour < away + 24 * 14:
                    season = math.sin(2 * math.pi * hour / 24 / 365)
                    value = mean + yearly * season + sum(a * b for a, b in zip(loadings, weather[hour]))
                    value += daily * (1 + 0.4 * season) * math.sin(2 * math.pi * hour / 24 + phase)
                    file.write(f"{station},{hour},{value + normal(0, 0.5)}\n")


def calibration(arguments):
    """Every set with every seed: the split and what is random in the fit."""
    folder = arguments.dir
    ratings = folder / "calibration.csv"
    tenfill(arguments, "synth", "-o", ratings, "--kind", "ratings", "--dims", "2000,1500,100", "--entries", 300000,
            "--test", 0, "--force")
    sets = [("ratings-like", ratings, []), ("readings", None, ["--modes", "station,stamp", "--value", "value"])]
    sets += [(str(path.parent.name), path, []) for path in arguments.also]
    print(f"{'data':14} {'seed':>4} {'entries':>8} {'RMSE':>8} {'50 %':>6} {'80 %':>6} {'95 %':>6}")
    for name, path, options in sets:
        for seed in arguments.seeds:
            if name == "readings":
                path = folder / "readings.csv"
                readings(path, seed)
            tenfill(arguments, "complete", path, "-o", folder / "run-calibration", "--rank", "auto",
                    "--seed", seed, "--force", *options)
            found = tenfill(arguments, "evaluate", folder / "run-calibration")
            covered = " ".join(f"{100 * one['covered']:6.1f}" for one in found["coverage"])
            print(f"{name:14} {seed:4} {found['entries']:8} {found['rmse']:8.4f} {covered}", flush=True)


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
            "--max-iterations", 5, "--force", "--bias", "modes", "--penalty", 0.01)
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
    parser.add_argument("what", choices=["fold-in", "cold", "calibration", "recommend", "predict"])
    parser.add_argument("--tenfill", default="target/release/tenfill")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("target/use"))
    parser.add_argument("--data", type=pathlib.Path, help="fold-in, cold: a ratings CSV with the column userId")
    parser.add_argument("--also", type=pathlib.Path, nargs="*", default=[], help="calibration: more ratings CSVs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="cold, calibration")
    parser.add_argument("--rank", default="10,10,4", help="recommend, predict: the rank")
    parser.add_argument("--settings", nargs="+", default=["--rank auto", "--rank 4,4,4 --bias modes --penalty 0.01", "--rank 4,4,2 --bias none --penalty 0 --metric preconditioned --max-iterations 60"],
                        help="fold-in: options of complete, one set per argument")
    arguments = parser.parse_args()
    arguments.dir.mkdir(parents=True, exist_ok=True)
    made = {"fold-in": fold_in, "cold": cold, "calibration": calibration, "recommend": recommend, "predict": predict}
    made[arguments.what](arguments)


if __name__ == "__main__":
    main()
