#!/usr/bin/env python3
"""The small MovieLens set from the lenskit 2026.4.0 source package, fetched with pip.

usage: get_ml_small.py OUTDIR [--archive FILE]

Writes OUTDIR/ratings.csv with the header userId,movieId,rating,timestamp, as
it is in the package. Needs only Python and pip (which runs the package's own
build script to read its metadata); nothing is installed. --archive takes a
copy of the source package that is already there. The ratings are GroupLens's;
their terms of use apply.
"""
import argparse, os, sys

from package import read_member

NAME, VERSION = "lenskit", "2026.4.0"
SHA256 = "c54b1a26b73aaaaf9b3f896cb72d7977dbd8faec839e92d8d28a4095abb34d29"
MEMBER = "lenskit-2026.4.0/data/ml-latest-small/ratings.csv"


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("outdir")
    p.add_argument("--archive")
    a = p.parse_args()
    text = read_member(NAME, VERSION, SHA256, MEMBER, a.archive, source=True).decode("utf-8")
    lines = text.splitlines()
    if lines[0] != "userId,movieId,rating,timestamp":
        sys.exit("unexpected columns: %s" % lines[0])
    os.makedirs(a.outdir, exist_ok=True)
    path = os.path.join(a.outdir, "ratings.csv")
    with open(path, "w", newline="", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    rows = [line.split(",") for line in lines[1:]]
    print("%s: %d rows, %d users, %d movies"
          % (path, len(rows), len({r[0] for r in rows}), len({r[1] for r in rows})))


if __name__ == "__main__":
    main()
