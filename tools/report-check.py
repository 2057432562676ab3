#!/usr/bin/env python3
"""Opens reports in headless Chromium: no console message, no request but the page, marks in every plot.

    tools/report-check.py report.html [more.html ...] [--screenshots DIR]
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

QUIET = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage",
]


class Plots(HTMLParser):
    """Counts, for every plot, the shapes that are drawn in a colour of a series."""

    def __init__(self):
        super().__init__()
        self.marks, self.texts, self.inside = [], [], 0

    def handle_starttag(self, tag, attributes):
        if tag == "svg":
            self.marks.append(0)
            self.texts.append(0)
            self.inside = 1
        elif self.inside:
            colours = " ".join(value or "" for _, value in attributes)
            if tag in ("rect", "polyline", "circle", "path", "line", "polygon") and "var(--s" in colours:
                self.marks[-1] += 1
            self.texts[-1] += tag == "text"

    def handle_endtag(self, tag):
        if tag == "svg":
            self.inside = 0


def check(chromium, page):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "net.json")
        found = subprocess.run(
            [chromium, *QUIET, f"--user-data-dir={folder}/profile", "--enable-logging=stderr",
             f"--log-net-log={log}", "--dump-dom", page.resolve().as_uri()],
            capture_output=True, text=True, timeout=120)
        said = [line for line in found.stderr.splitlines() if "CONSOLE" in line]
        assert not said, f"{page}: the console says {said}"
        text = log.read_text()
        try:
            net = json.loads(text)
        except json.JSONDecodeError:  # Chromium may end before it has closed the list
            net = json.loads(text.rstrip().rstrip(",") + "]}")
        urls = {event.get("params", {}).get("url") for event in net["events"]}
        away = {url for url in urls if url and re.match(r"(https?|wss?|ftp):", url)}
        # Chromium's own services are asked by the browser, not by the page.
        away = {url for url in away if not re.search(r"//[^/]*(google|gstatic|gvt1)[^/]*/", url)}
        assert not away, f"{page}: requests left the page: {away}"
    source = page.read_text()
    outside = re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)[^"']*|@import|url\(""", source)
    assert not outside, f"{page}: refers to {outside}"
    plots = Plots()
    plots.feed(found.stdout)
    assert plots.marks, f"{page}: there is no plot"
    for number, (marks, texts) in enumerate(zip(plots.marks, plots.texts)):
        assert marks, f"{page}: plot {number + 1} has no marks"
        assert texts >= 3, f"{page}: plot {number + 1} has hardly any labels"
    print(f"{page}: {len(plots.marks)} plots with {sum(plots.marks)} marks, no message, no request")


def screenshots(chromium, page, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for theme, setting in (("light", "1"), ("dark", "0")):
        target = folder / f"{page.stem}-{theme}.png"
        with tempfile.TemporaryDirectory() as profile:
            subprocess.run(
                [chromium, *QUIET, f"--user-data-dir={profile}", "--window-size=1120,1560",
                 f"--blink-settings=preferredColorScheme={setting}", f"--screenshot={target}",
                 page.resolve().as_uri()],
                check=True, capture_output=True, timeout=120)
        print(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("report-check: there is no chromium here: apt-get install chromium")
    for page in arguments.pages:
        try:
            check(chromium, page)
        except AssertionError as error:
            sys.exit(f"report-check: {error}")
        if arguments.screenshots:
            screenshots(chromium, page, arguments.screenshots)


if __name__ == "__main__":
    main()
