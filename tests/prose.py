#!/usr/bin/env python3
"""Checks that pages and comments are plain English (CONTRIBUTING.md). usage: prose.py REPOSITORY

A sentence may not begin with a relative clause or an inversion, and may not have more than 40 words. Most have 25 at
most.
"""
import pathlib
import re
import subprocess
import sys

INVERTED = ("What", "Who", "Whoever", "Whatever", "Where", "Whether", "Of", "Those", "That", "Which", "Beside", "Nobody", "None",
            "Nothing")
ODD = re.compile(r"\b(nobody|whoever|lest|mended|to and fro|is told|in vain|thereof|henceforth)\b", re.I)
COMMENTED = {".cpp", ".hpp", ".h", ".c"}
LONGEST, LONG, SHARE_OF_LONG = 40, 25, 0.03


def paragraphs(path):
    """(line, text) of each run of prose: list items and table cells are runs of their own."""
    lines, start, code = [], 0, False
    page = path.suffix == ".md"
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if page:
            code ^= line.startswith("```")
            text = None if code or re.match(r"    |\||#|\s*$|```", line) else line
        else:
            comment = re.match(r"\s*//+ ?(.*)", line)
            text = comment.group(1) if comment and comment.group(1).strip() else None
            in_item = lines and re.match(r"[*-] |\d+\. ", lines[0])
            if text and text.startswith("  ") and not in_item:  # a table or a snippet
                text = None
        if lines and (text is None or re.match(r"\s*[*-] |\s*\d+\. ", text)):
            yield start, " ".join(lines)
            lines = []
        if text is not None:
            start = start if lines else number
            lines.append(text.strip())
    if lines:
        yield start, " ".join(lines)


def sentences(text):
    for part in re.split(r"(?<=[.!?])\s+(?=[A-Z`*])", text):
        words = part.lstrip("*-# 0123456789.").split()
        if len(words) >= 3:
            yield words, part


def main(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 else []
    names = names or [str(p.relative_to(root)) for p in root.rglob("*") if p.suffix in COMMENTED | {".md"} and "build" not in p.parts]
    wrong, count, long = [], 0, 0
    for name in sorted(filter(None, names)):
        path = root / name
        if path.suffix not in COMMENTED | {".md"} or not path.is_file():
            continue
        for line, text in paragraphs(path):
            for words, sentence in sentences(text):
                count += 1
                long += len(words) > LONG
                for bad, why in ((words[0] in INVERTED, "begins inverted"), (len(words) > LONGEST, f"has {len(words)} words"),
                                 (ODD.search(sentence), "has an odd word")):
                    if bad:
                        wrong.append(f"{name}:{line}: {why}: {sentence[:100]}")
    if long > SHARE_OF_LONG * count:
        wrong.append(f"{long} of {count} sentences have more than {LONG} words")
    print("\n".join(wrong))
    print(f"{count} sentences, {long} of more than {LONG} words")
    return 1 if wrong or count < 1000 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
