"""The experiments of thresholds.toml, for try-constant.py: sets, runs over them, and the page that they become."""

import json
import math
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

PLAIN = "--bias none --penalty 0 --no-clip --max-iterations 400"
TELL = ["--quiet", "--json"]
# In memory where there is such a place: a run of a tenth of a second would wait for the disk.
RUN = pathlib.Path("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()) / f"tenfill-try-{os.getpid()}"
CONST = re.compile(r"^(?:pub(?:\([a-z]+\))? )?const ([A-Z0-9_]+): [^=]+ =\s+([^;]+);", re.M)
HEAD = """# Thresholds

What other values of the constants that decide the course of a run would do. `tools/try-constant.py --all` writes this
page, in about an hour of one core; the list of experiments is [tools/thresholds.toml](../tools/thresholds.toml). A test
([tests/suite/thresholds.rs](../tests/suite/thresholds.rs)) fails where a constant of these files has no row, or another value
than here.

```sh
tools/data/get_ml100k.py target/data && tools/data/get_ml_small.py target/small
tools/try-constant.py --all
```

A value is tried on all runs whose course has read the constant. Outcomes are compared with those of the present value: the
test RMSE where data are noisy (mean, and from the best to the worst run); how many are solved where they are low-rank; passes
over the data (of all runs, and from the best to the worst; only of what is solved both times). Coverage is by how many
points intervals of 50, 80 and 95 % miss their share, told where it changes by 0.05 or more. All of it is deterministic.
Behind it, how many runs have changed at all. Passes of one run easily change by a tenth, because a trial more or less is
made; a mean error below 0.05 % is within what other seeds make of it.

Most rows say that a constant does not need to be exact, which is what one wants of it. Where comments at a constant tell
of an experiment, that was a larger one. Some low-rank sets have seeds in common with those; the list says which. A value that looks
better here is one of some 290 that were tried: it needs other seeds before it is believed.

## Sets

{plain} is `PLAIN`. How sets are made is in the list.
""".replace("PLAIN", PLAIN)


class Panel:
    """The sets, and what runs over them came to: kept in a file, because a list takes an hour."""

    def __init__(self, root: pathlib.Path, programs: dict[str, str], sets: list[dict]) -> None:
        self.root, self.programs, self.folder = root, programs, root / "target" / "try"
        self.path = self.folder / "results.json"
        self.known = json.loads(self.path.read_text()) if self.path.exists() else {}
        source = ["git", "rev-parse", "HEAD:src"]
        state = subprocess.run(source, cwd=root, check=True, capture_output=True, text=True).stdout.strip()
        if self.known.get("state") != state:
            self.known = {"state": state}
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        self.runs = [(of, seed) for of in sets for seed in of["seeds"]]
        # With the present values: what is read, and what comes out.
        self.now = [self.run(of, seed) for of, seed in self.runs]

    def run(self, of: dict, seed: int, key: str = "", value: str = "") -> dict:
        """What comes out of a set with a value: from the file of results, or from a run."""
        title = f"{of['name']} {seed} {of['make']} {of['complete']} {key}={value}"
        if title not in self.known:
            self.known[title] = self.measure(of, seed, key, value)
            self.path.write_text(json.dumps(self.known))
            shown = {name: x for name, x in self.known[title].items() if name != "read"}
            print(of["name"], seed, key, value, shown, flush=True)
        return self.known[title]

    def measure(self, of: dict, seed: int, key: str, value: str) -> dict:
        data = self.folder / "data" / re.sub(r"\W+", "-", f"{of['name']} {seed}")
        words = {**self.programs, "seed": seed, "data": data, "run": RUN, "get": self.root / "target"}
        words["plain"] = PLAIN
        clean = {name: x for name, x in os.environ.items() if not name.startswith("TRY_")}
        if not data.exists():
            for line in of["make"]:
                subprocess.run(shlex.split(line.format(**words)), check=True, cwd=self.root, env=clean)
        read = self.folder / "read"
        read.unlink(missing_ok=True)
        environment = {**clean, key: value} if key else {**clean, "TRY_READ": str(read)}

        def told(line: str) -> dict | None:
            command = [*shlex.split(line.format(**words)), *TELL]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            return None if done.returncode else json.loads(done.stdout.splitlines()[-1])

        done = told(f"{{tenfill}} complete --force {of['complete']} -o {{run}} {{data}}")
        sure = told("{tenfill} evaluate {run}") if of.get("sure") and done else None
        if not done:
            return {"fails": True}
        test = done["errors"]["test"]
        out = {"passes": done["passes"], "kind": done["data"]["kind"], "rmse": test["rmse"]}
        if "solved" in of:
            out["solved"] = test["rmse"] <= of["solved"] * test["mean_rmse"]
        if sure:
            out["off"] = sum(abs(one["covered"] - one["nominal"]) for one in sure["coverage"]) / len(sure["coverage"])
        if not key:
            out["read"] = sorted(set(read.read_text().split())) if read.exists() else []
        return out

    def table(self) -> list[str]:
        """The sets, with what comes out at present."""
        lines = ["| set | seeds | options of `complete` | now |", "|---|---|---|---|"]
        for of in dict.fromkeys(of["name"] for of, _ in self.runs):
            mine = [(set_, seed, now) for (set_, seed), now in zip(self.runs, self.now) if set_["name"] == of]
            passes = " / ".join(str(now["passes"]) for _, _, now in mine)
            solved = sum(now.get("solved", False) for _, _, now in mine)
            errors = " / ".join(f"{now['rmse']:.4g}" for _, _, now in mine)
            told = f"solved {solved} of {len(mine)}" if "solved" in mine[0][0] else f"RMSE {errors}"
            seeds = ", ".join(str(seed) for _, seed, _ in mine)
            complete = mine[0][0]["complete"].replace("{data}.run", "RUN").replace(" --seed {seed}", "")
            lines.append(f"| {of} | {seeds} | `{complete}` | {told}; {passes} passes |")
        return lines

    def cell(self, key: str, values: list[str], only: str) -> str:
        """What other values of a constant change on the sets that read it, and have a word in their names."""
        at = [(of, seed, now) for (of, seed), now in zip(self.runs, self.now) if key in now["read"]]
        at = [(of, seed, now) for of, seed, now in at if re.search(only, of["name"])]
        if not at:
            return "not read on any set"
        told = [f"on {len(at)} runs"]
        for value in values:
            told.append(f"**{value}**: {changes([(of, now, self.run(of, seed, key, value)) for of, seed, now in at])}")
        return "<br>".join(told)


def percent(ratio: float, digits: int) -> str:
    """By how much a ratio is above one; nothing is neither more nor less."""
    number = round(100 * (ratio - 1), digits)
    return f"{number:+.{digits}f}" if number else f"{0:.{digits}f}"


def changes(outs: list[tuple[dict, dict, dict]]) -> str:
    """What outcomes are beside those of the present value."""
    fails = sum("fails" in new for _, _, new in outs)
    outs = [(of, now, new) for of, now, new in outs if "fails" not in new]
    changed = sum(any(new[name] != now[name] for name in new) for _, now, new in outs)
    if not fails and not changed:
        return "the same"
    parts = [f"{fails} fail"] if fails else []
    errors = [math.log(new["rmse"] / now["rmse"]) for of, now, new in outs if "solved" not in of]
    if any(errors):
        mean, most, least = (percent(math.exp(x), 2) for x in (sum(errors) / len(errors), max(errors), min(errors)))
        parts.append(f"error {mean} % ({least} to {most})")
    solved = [(now["solved"], new["solved"]) for of, now, new in outs if "solved" in of]
    if any(a != b for a, b in solved):
        parts.append(f"solved {sum(b for _, b in solved)} instead of {sum(a for a, _ in solved)} of {len(solved)}")
    # Passes of what is not solved say nothing.
    both = [(now["passes"], new["passes"]) for _, now, new in outs if now.get("solved", True) and new.get("solved", True)]
    if any(a != b for a, b in both):
        ratios = [b / a for a, b in both]
        total = sum(b for _, b in both) / sum(a for a, _ in both)
        parts.append(f"passes {percent(total, 1)} % ({percent(min(ratios), 0)} to {percent(max(ratios), 0)})")
    off = [(now["off"], new["off"]) for _, now, new in outs if "off" in new]
    a, b = (100 * sum(x) / len(off) for x in zip(*off)) if off else (0, 0)
    if abs(a - b) >= 0.05:
        parts.append(f"coverage off by {b:.2f} instead of {a:.2f} points")
    kinds = sum(now["kind"] != new["kind"] for _, now, new in outs)
    if kinds:
        parts.append(f"another kind told of {kinds}")
    return f"{', '.join(parts) or 'nothing that is told here'}; {changed} changed"


def rows_of(page: str) -> dict[tuple[str, str], str]:
    """The cells of a page that is there, by file and constant."""
    rows, file = {}, ""
    for line in page.splitlines():
        if line.startswith("## "):
            file = line.removeprefix("## ")
        elif match := re.match(r"\| `(\w+)` \| `[^`]*` \| .*? \| (.*) \|$", line):
            rows[file, match[1]] = match[2]
    return rows


def everything(panel: Panel, constants: dict, keys: dict, tried: set[str], only: list[str], commit: str) -> None:
    """Runs the list, or only some files and `file:NAME` of it, and writes the page."""
    path = panel.root / "docs" / "thresholds.md"
    before = path.read_text() if only else ""
    known = rows_of(before)
    # Which commit rows are of.
    told = next((part for part in before.split("\n\n") if part.startswith("Rows are of ")), "")
    told = f"{told.rstrip('.')}; those of {', '.join(only)} are of {commit}." if told else f"Rows are of {commit}."
    page = [HEAD.replace("Most rows say", told + "\n\nMost rows say").rstrip("\n"), "", *panel.table()]
    for file, names in constants.items():
        values = dict(CONST.findall((panel.root / "src/engine" / file).read_text()))
        page += ["", f"## {file}", "", "| constant | value | what it decides | other values |", "|---|---|---|---|"]
        for name, about in names.items():
            key = keys[file][name]
            if only and file not in only and f"{file}:{name}" not in only:
                cell = known.get((file, name), "not tried")
                page.append(f"| `{name}` | `{' '.join(values[name].split())}` | {about['decides']} | {cell} |")
                continue
            cell = panel.cell(key, about["try"], about.get("on", "")) if key in tried and about["try"] else "not tried"
            page.append(f"| `{name}` | `{' '.join(values[name].split())}` | {about['decides']} | {cell} |")
    shutil.rmtree(RUN, ignore_errors=True)
    path.write_text("\n".join(page) + "\n")
