#!/usr/bin/env python3
"""Checks that what the documents name is there: relative links, and paths of the repository between backquotes.
usage: links.py REPOSITORY"""
import pathlib
import re
import sys

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:src|include|tests|bench|scripts|cmake|docs|examples|viewer)/[\w./-]+)`")


def main(root: pathlib.Path) -> int:
    wrong = 0
    documents = sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md"))
    for document in documents:
        for number, line in enumerate(document.read_text().splitlines(), 1):
            named = [document.parent / link.split("#")[0] for link in LINK.findall(line) if "://" not in link]
            if "decisions" not in document.parts:  # a decision may speak of what is gone
                named += [root / path for path in PATH.findall(line)]
            for target in named:
                if not target.exists():
                    print(f"{document.relative_to(root)}:{number}: there is no {target.relative_to(root)}")
                    wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
