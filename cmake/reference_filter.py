#!/usr/bin/env python3
"""Doxygen's input filter: our headers' plain comments as it wants them. What stands before a declaration is about it, what
stands behind a member too, and the first comment is about the file. usage: reference_filter.py HEADER"""
import re
import sys

BEFORE = re.compile(r"^(\s*)//(?: (.*)|\s*)$")
BEHIND = re.compile(r"^(.*\S)(\s{2,})// (.*)$")
SPECIAL = re.compile(r"([\\@<>#$%&])")


def escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)


def block(indent: str, lines: list[str], first: bool) -> list[str]:
    """One comment; fenced snippets, and lines set in behind no list item (snippets, tables), stay as they are."""
    out, verbatim, fenced, item = ["@file"] if first else [], False, False, False
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
            line = ""
        item = line.startswith("* ") or (item and line.startswith("  "))
        set_in = fenced or (not item and line.startswith("  "))
        if set_in != verbatim and (set_in or line):
            out.append("@verbatim" if set_in else "@endverbatim")
            verbatim = set_in
        out.append(line if verbatim else escaped(re.sub(r"^\* ", "- ", line)))
    if verbatim:
        out.append("@endverbatim")
    return [f"{indent}/// {line}".rstrip() for line in out]


def main(path: str) -> None:
    lines = open(path, encoding="utf-8").read().splitlines()
    comment, indent, first = [], "", True
    column = None  # of the trailing comment on the line before, which may continue below
    for line in lines + [""]:
        if found := BEFORE.match(line):
            if len(found[1]) == column:
                print(f"{found[1]}///< {escaped(found[2] or '')}")
                continue
            if not comment:
                indent = found[1]
            comment.append(found[2] or "")
            continue
        if comment:
            print("\n".join(block(indent, comment, first)))
            comment, first = [], False
        behind = BEHIND.match(line)
        if behind and not line.lstrip().startswith("#"):
            column = len(behind[1]) + len(behind[2])
            print(f"{behind[1]}{behind[2]}///< {escaped(behind[3])}")
        else:
            column = None
            print(line)


if __name__ == "__main__":
    main(sys.argv[1])
