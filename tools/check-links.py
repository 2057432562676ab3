#!/usr/bin/env python3
"""Checks the pages: relative links resolve, anchors included, and the README is short.

    tools/check-links.py

Looks at every *.md file that git knows or would add. Exits with 1 where something is wrong.
"""

import pathlib
import re
import subprocess
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
README_BYTES = 8192

FENCE = re.compile(r"^\s*(```|~~~)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^()\s<>]*(?:\([^()\s]*\)[^()\s]*)*)>?(?:\s+\"[^\"]*\")?\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)")
ATTRIBUTE = re.compile(r"""(?:src|href)=["']([^"']+)["']""")
FOREIGN = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^//")


def lines_of_text(path):
    """The lines of a page outside code blocks and comments, with their numbers."""
    inside, comment = False, False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            if comment or "<!--" in line:
                comment = "-->" not in line.rsplit("<!--", 1)[-1]
                line = re.sub(r"<!--.*?(-->|$)", "", line) if "<!--" in line else ""
            yield number, line


def anchor(heading):
    """What a heading is called in links, as GitHub does it."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = unicodedata.normalize("NFC", heading.replace("`", "").replace("*", "")).lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def anchors(path):
    """All names that a link into this page may have."""
    found, count = set(), {}
    for _, line in lines_of_text(path):
        if heading := HEADING.match(line):
            name = anchor(heading[1])
            again = count.get(name, 0)
            count[name] = again + 1
            found.add(f"{name}-{again}" if again else name)
        found.update(re.findall(r"""<a\s+(?:id|name)=["']([^"']+)["']""", line))
    return found


def links(path):
    """The links of a page, with their lines."""
    for number, line in lines_of_text(path):
        line = re.sub(r"(`+).+?\1", "code", line)
        targets = [match[1] for match in ATTRIBUTE.finditer(line)]
        targets += [match[1] for match in LINK.finditer(line)]
        if reference := REFERENCE.match(line):
            targets.append(reference[1])
        for target in targets:
            yield number, target


def check(path, known):
    """What is wrong with the links of a page."""
    for number, target in links(path):
        if FOREIGN.match(target) or not target:
            continue
        place, _, name = target.partition("#")
        where = f"{path.relative_to(ROOT)}:{number}: {target}"
        if place.startswith("/"):
            yield f"{where} is an absolute path"
            continue
        to = (path.parent / place).resolve() if place else path
        if not to.exists():
            yield f"{where} does not exist"
        elif not to.is_relative_to(ROOT):
            yield f"{where} is outside the repository"
        elif name and to.suffix == ".md":
            if to not in known:
                known[to] = anchors(to)
            if name not in known[to]:
                yield f"{where}: there is no such heading"


def main():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    pages = sorted(path for line in listed.splitlines() if (path := ROOT / line).is_file())
    known = {}
    wrong = [flaw for page in pages for flaw in check(page, known)]
    size = (ROOT / "README.md").stat().st_size
    if size > README_BYTES:
        wrong.append(f"README.md has {size} bytes, {README_BYTES} are allowed: move something to docs")
    for flaw in wrong:
        print(flaw, file=sys.stderr)
    if wrong:
        sys.exit(1)
    count = sum(1 for page in pages for _ in links(page))
    print(f"{len(pages)} pages, {count} links, README.md {size} bytes: all well")


if __name__ == "__main__":
    main()
