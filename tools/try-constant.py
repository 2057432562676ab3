#!/usr/bin/env python3
"""What becomes of a measurement with another value of a constant: the experiment behind a threshold.

    tools/try-constant.py src/engine/bayes/grow.rs WORTH 5e-4 1e-3 2e-3 -- {bench} ratings --ranks 0 --seeds 1

For each value, the constant is replaced in a copy of the last commit, the program and tools/bench are built there,
and the command is run, with {bench} and {tenfill} standing for the two. The tree that you work in is left alone.
The copy and its build stay in target/try, so that the next value takes a minute; delete it when you like.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "target" / "try" / "tree"


def main() -> None:
    arguments = sys.argv[1:]
    if "--" not in arguments or arguments.index("--") < 3:
        sys.exit(__doc__)
    cut = arguments.index("--")
    (file, name, *values), command = arguments[:cut], arguments[cut + 1 :]
    if not TREE.exists():
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", TREE, "HEAD"], cwd=ROOT, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    # The copy is made by this script alone, so that nothing in it is anybody's work.
    subprocess.run(["git", "checkout", "--quiet", "--detach", "--force", commit.stdout.strip()], cwd=TREE, check=True)
    path = TREE / file
    text = path.read_text()
    pattern = re.compile(rf"(\bconst {re.escape(name)}: [^=]+ = )([^;]+);")
    found = pattern.findall(text)
    if len(found) != 1:
        sys.exit(f"{file}: {len(found)} constants are called {name}")
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TREE.parent / "build"), "CARGO_INCREMENTAL": "1"}
    built = TREE.parent / "build" / "release"
    names = {"{bench}": str(built / "tenfill-bench"), "{tenfill}": str(built / "tenfill")}
    command = [names.get(word, word) for word in command]
    if command[:1] == [names["{bench}"]] and "--tenfill" not in command:
        command += ["--tenfill", names["{tenfill}"]]
    print(f"{file}, {name}: now {found[0][1]}\n{shlex.join(command)}", flush=True)
    try:
        for value in values:
            path.write_text(pattern.sub(lambda match: f"{match[1]}{value};", text))
            build = ["cargo", "build", "--release", "--quiet", "-p", "tenfill", "-p", "tenfill-bench"]
            subprocess.run(build, cwd=TREE, env=environment, check=True)
            print(f"\n{name} = {value}", flush=True)
            subprocess.run(command, cwd=ROOT, check=False)
    finally:
        path.write_text(text)


if __name__ == "__main__":
    main()
