#!/usr/bin/env python3
"""Tries the program, built with --features stores, against an S3 server on this machine (moto).

    tools/stores-check.py [TENFILL]        default: target/release/tenfill

Needs moto[server] and boto3. Prints what was checked; ends with 1 where something is not as it should be.
"""

import os
import random
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

KEY, SECRET, REGION = "an-access-key", "a-secret-key-that-nobody-may-see", "eu-central-1"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    program = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/tenfill").resolve()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port())
    server.start()
    endpoint = "http://%s:%s" % server.get_host_and_port()
    ours = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
    ours |= {"AWS_ENDPOINT_URL": endpoint, "TENFILL_STORE_TIMEOUT": "5", "TENFILL_STORE_RETRIES": "2"}
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=SECRET
    )
    client.create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": REGION})
    with tempfile.TemporaryDirectory() as place:
        check(program, Path(place), ours, client)
    server.stop()
    print("stores: all is as it should be")


def check(program, place, ours, client):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}

    def run(*arguments, fails=None):
        done = subprocess.run(
            [program, *arguments], cwd=place, env=kept | ours, capture_output=True, text=True, timeout=300
        )
        assert SECRET not in done.stdout + done.stderr, "a secret was printed"
        if fails is None:
            assert done.returncode == 0, f"{arguments}: {done.stderr}"
        else:
            assert done.returncode == 1 and fails in done.stderr, f"{arguments}: {done.stderr}"
        return done

    draw = random.Random(5)
    rows = [f"{draw.randrange(900)},{draw.randrange(400)},{draw.randrange(1, 6)}" for _ in range(400_000)]
    table = "user,film,rating\n" + "\n".join(rows) + "\n"
    (place / "local.csv").write_text(table)
    client.upload_file(str(place / "local.csv"), "data", "in/local.csv")
    run("convert", "local.csv", "-o", "local.tenfill")
    run("convert", "s3://data/in/local.csv", "-o", "far.tenfill")
    same = subprocess.run(["diff", "-r", place / "local.tenfill", place / "far.tenfill"])
    assert same.returncode == 0, "an object gives another dataset than the file"
    print("convert: the bytes of the local file's dataset")

    for number, part in enumerate([rows[:1000], rows[1000:3000]]):
        body = "user,film,rating\n" + "\n".join(part) + "\n"
        client.put_object(Bucket="data", Key=f"parts/{number}.csv", Body=body.encode())
    run("convert", "s3://data/parts/*.csv", "-o", "parts.tenfill")
    print("convert: a pattern")

    run("complete", "local.tenfill", "-o", "run", "--rank", "2", "--max-iterations", "3")
    # Larger than a part of an upload, so that it goes in several.
    ids = "".join(f"{n % 900},{n % 400}\n" for n in range(2_000_000))
    (place / "ask.csv").write_text("user,film\n" + ids)
    run("predict", "run", "ask.csv", "-o", "here.csv")
    run("predict", "run", "ask.csv", "-o", "s3://data/out/there.csv")
    body = client.get_object(Bucket="data", Key="out/there.csv")["Body"].read()
    assert body == (place / "here.csv").read_bytes(), "the object is not what the file is"
    assert len(body) > 2 * 16 << 20, "too small to be sent in parts"
    run("predict", "run", "ask.csv", "-o", "s3://data/out/there.csv", fails="exists already")
    run("predict", "run", "ask.csv", "-o", "s3://data/out/there.csv", "--force")
    run("predict", "run", "local.csv", "-o", "s3://data/out/small.parquet")
    run("predict", "run", "s3://data/out/small.parquet", "-o", "again.csv")
    print("predict: to an object in parts, and from Parquet")

    for path in sorted((place / "local.tenfill").rglob("*")):
        if path.is_file():
            client.upload_file(str(path), "data", f"sets/r.tenfill/{path.relative_to(place / 'local.tenfill')}")
    run("complete", "s3://data/sets/r.tenfill", "-o", "a", "--rank", "2", fails="--cache")
    fit = ["--rank", "2", "--max-iterations", "3", "--cache", "cache"]
    run("complete", "s3://data/sets/r.tenfill", "-o", "a", *fit)
    bits = (place / "a/model/model.bin").read_bytes()
    assert bits == (place / "run/model/model.bin").read_bytes(), "another model than that of the local dataset"
    (cached,) = (place / "cache").iterdir()
    (cached / "manifest.json").unlink()
    shard = next(cached.glob("train/*.shard"))
    before, stamp = shard.read_bytes(), shard.stat().st_mtime_ns
    other = next(cached.glob("test/*.shard"))
    other.write_bytes(other.read_bytes()[:-1])
    run("complete", "s3://data/sets/r.tenfill", "-o", "b", *fit)
    assert shard.read_bytes() == before and shard.stat().st_mtime_ns == stamp, "a shard was fetched again"
    assert (place / "b/model/model.bin").read_bytes() == bits
    print("complete: a dataset in a store, fetched once, and what was damaged again")

    run("convert", "s3://data/no-such", "-o", "x.tenfill", fails="there is no such object")
    run("convert", "s3://no-such-bucket/x.csv", "-o", "x.tenfill", fails="there is no such object")
    written = [path for path in place.rglob("*") if path.is_file() and path.suffix in (".json", ".jsonl")]
    for path in written:
        assert SECRET not in path.read_text() and KEY not in path.read_text(), f"{path} holds a secret"
    left = client.list_multipart_uploads(Bucket="data").get("Uploads", [])
    assert not left, f"parts are left behind: {left}"
    print("mistakes: one sentence each, no secrets, nothing left behind")


if __name__ == "__main__":
    main()
