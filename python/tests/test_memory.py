"""Memory and file descriptors stay where they are."""

import os
import subprocess
import sys

import numpy as np
import tenfill as tf

STREAMED = """
import sys, numpy as np, threading, time, tenfill as tf
rows, most = int(sys.argv[1]), 0

def anonymous():
    with open("/proc/self/status") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024

def watch():
    global most
    while True:
        most = max(most, anonymous())
        time.sleep(0.02)

def batches():
    generator = np.random.default_rng(1)
    for first in range(0, rows, 100_000):
        yield {"user": generator.integers(0, 200_000, 100_000), "item": generator.integers(0, 20_000, 100_000),
               "value": generator.normal(size=100_000)}

threading.Thread(target=watch, daemon=True).start()
before = anonymous()
data = tf.Dataset.write("streamed.tenfill", batches(), modes=["user", "item"], value="value", memory="256M",
                        split="none", progress=False)
print(data.nnz, most)
"""


def test_twenty_million_rows_are_streamed_within_the_budget():
    rows = 20_000_000
    done = subprocess.run([sys.executable, "-c", STREAMED, str(rows)], capture_output=True, text=True, check=True)
    entries, most = map(int, done.stdout.split())
    assert 0.99 * rows < entries <= rows
    assert most < (256 << 20) + (150 << 20), f"{most >> 20} MB"
    print(f"peak {most >> 20} MB of anonymous memory")


def anonymous():
    with open("/proc/self/status") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024


def test_nothing_grows_over_two_hundred_cycles(home):
    questions = {"userId": np.arange(1, 400), "movieId": np.arange(1, 400) % 300, "timestamp": np.full(399, 963619200)}

    def cycle():
        model = tf.load(home / "run")
        model.predict(questions)["prediction"].sum()
        model.recommend({"userId": 3}, rank_mode="movieId", top=3)
        for table in tf.Dataset.open(home / "data.tenfill").to_batches("test"):
            len(table)

    for _ in range(20):
        cycle()
    files, memory = len(os.listdir("/proc/self/fd")), anonymous()
    for _ in range(200):
        cycle()
    assert len(os.listdir("/proc/self/fd")) <= files
    assert anonymous() - memory < 8 << 20
