#!/usr/bin/env python3
"""What becomes of a measurement with another value of a constant: the experiment behind a threshold.

    tools/try-constant.py src/engine/bayes/grow.rs WORTH 5e-4 2e-3 -- {bench} ratings --ranks 0 --seeds 1
    tools/try-constant.py --all    every experiment of tools/thresholds.toml, into docs/thresholds.md
    tools/try-constant.py --all recipe/missing.rs:LITTLE objective/evenness.rs    these alone; other rows stay

In a copy of the last commit, constants become functions that look for a value in the environment. So they are built
once, and another value is only another run. A constant that is the length of an array stays one; there, the first form
builds for each value. {bench} and {tenfill} stand for the two programs. The tree that you work in is left alone. The
copy, its build, data and results stay in target/try, so that --all after a change of the list runs only what is new;
delete it when you like.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tomllib

import thresholds

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRY = ROOT / "target" / "try"
TREE = TRY / "tree"
BUILT = TRY / "build" / "release"
NAMES = {"bench": str(BUILT / "tenfill-bench"), "tenfill": str(BUILT / "tenfill")}

KINDS = {"f64": "x[0]", "usize": "x[0] as usize", "u64": "x[0] as u64", "(f64, f64)": "(x[0], x[1])",
         "[f64; 2]": "[x[0], x[1]]"}
CONST = re.compile(
    r"^(?P<vis>pub(?:\([a-z]+\))? )?const (?P<name>[A-Z0-9_]+): (?P<kind>%s) =\s(?P<value>[^;]+);"
    % "|".join(map(re.escape, KINDS)), re.M)
# What is read is said, so that a constant is tried only where something depends on it.
TRIED = """
/// Numbers from the environment that a constant is to be instead.
pub fn tried(name: &str) -> Option<Vec<f64>> {
    use std::io::Write;
    if let Some(path) = std::env::var_os("TRY_READ") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{name}\\n").as_bytes()).unwrap();
    }
    let text = std::env::var(name).ok()?;
    Some(text.split(',').map(|number| number.trim().parse().unwrap()).collect())
}
"""


def variable(file: str, name: str) -> str:
    """The environment variable of a constant."""
    return "TRY_" + re.sub(r"\W", "_", file.removeprefix("src/engine/").removesuffix(".rs")) + "_" + name


def calls(text: str, name: str) -> str:
    """Turns uses of a name into calls, but for comments, strings, and `use`."""
    pattern = rf'//[^\n]*|"(?:\\[\s\S]|[^"\\])*"|^\s*(?:pub(?:\([a-z]+\))? )?use [^;]*;|\b{name}\b(?!\()'
    return re.sub(pattern, lambda match: name + "()" if match[0] == name else match[0], text, flags=re.M)


def rewrite(files: list[str]) -> set[str]:
    """Makes functions of the constants of these files in the copy. Returns the variables that they look for."""
    found = set()
    for file in files:
        path = TREE / "src/engine" / file
        for _, name, _, _ in CONST.findall(path.read_text()):
            text = path.read_text()
            match = next(match for match in CONST.finditer(text) if match["name"] == name)
            vis, kind, value = match["vis"] or "", match["kind"], match["value"]
            if re.search(rf"; {name}\]", text):
                continue
            key = variable(file, name)
            found.add(key)
            function = (f"#[allow(missing_docs, non_snake_case)] {vis}fn {name}() -> {kind} "
                        f"{{ static AT: std::sync::OnceLock<{kind}> = std::sync::OnceLock::new(); *AT.get_or_init(|| "
                        f'crate::tried("{key}").map_or({value}, |x| {KINDS[kind]})) }}')
            path.write_text(calls(text.replace(match[0], function), name))
            for other in (path for folder in ("src", "tools/bench/src") for path in (TREE / folder).rglob("*.rs")):
                text = other.read_text() if vis and other != path else ""
                if re.search(rf"\b{name}\b", text) and f"const {name}:" not in text and f"fn {name}()" not in text:
                    other.write_text(calls(text, name))
    lib = TREE / "src/engine/lib.rs"
    lib.write_text(lib.read_text() + TRIED)
    return found


def git(*arguments: object, where: pathlib.Path = ROOT) -> str:
    return subprocess.run(["git", *arguments], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


def check_out() -> None:
    """The last commit, in the copy. It is made by this script alone, so that nothing in it is anybody's work."""
    if not TREE.exists():
        git("worktree", "add", "--detach", "--quiet", TREE, "HEAD")
    git("checkout", "--quiet", "--detach", "--force", git("rev-parse", "HEAD"), where=TREE)


def build() -> None:
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TRY / "build"), "CARGO_INCREMENTAL": "1"}
    command = ["cargo", "build", "--release", "--quiet", "-p", "tenfill", "-p", "tenfill-bench"]
    subprocess.run(command, cwd=TREE, env=environment, check=True)


def listed() -> tuple[list[dict], dict[str, dict]]:
    """The sets of the list, and its constants by files."""
    constants = tomllib.loads((ROOT / "tools" / "thresholds.toml").read_text())
    return constants.pop("set"), constants


def one(file: str, name: str, values: list[str], command: list[str]) -> None:
    """A command of one's own with several values of a constant."""
    command = [NAMES.get(word.strip("{}"), word) for word in command]
    if command[:1] == [NAMES["bench"]] and "--tenfill" not in command:
        command += ["--tenfill", NAMES["tenfill"]]
    path, inside = TREE / file, file.removeprefix("src/engine/")
    pattern = re.compile(rf"(\bconst {re.escape(name)}: [^=]+ = )([^;]+);")
    text = path.read_text()
    now = pattern.findall(text)
    if len(now) != 1:
        sys.exit(f"{file}: {len(now)} constants are called {name}")
    print(f"{file}, {name}: now {now[0][1]}\n{shlex.join(command)}", flush=True)
    key = variable(inside, name)
    # Those of the list with it, so that one build does for both forms.
    cheap = inside != file and key in rewrite(sorted({inside, *listed()[1]}))
    if cheap:
        build()
    for value in values:
        if not cheap:
            check_out()
            path.write_text(pattern.sub(lambda match: f"{match[1]}{value};", text))
            build()
        print(f"\n{name} = {value}", flush=True)
        subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, key: value})


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--all"]:
        sets, constants = listed()
        check_out()
        keys = rewrite(list(constants))
        build()
        tried = {file: {name: variable(file, name) for name in names} for file, names in constants.items()}
        commit = git("rev-parse", "--short", "HEAD")
        thresholds.everything(thresholds.Panel(ROOT, NAMES, sets), constants, tried, keys, arguments[1:], commit)
        return
    if "--" not in arguments or arguments.index("--") < 3:
        sys.exit(__doc__)
    cut = arguments.index("--")
    check_out()
    one(arguments[0], arguments[1], arguments[2:cut], arguments[cut + 1 :])


if __name__ == "__main__":
    main()
