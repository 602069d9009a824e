#!/usr/bin/env python3
"""A shared library shows what the public headers declare, what private ones show to Berth's own other libraries, and
nothing else. usage: exports.py REPOSITORY LIBRARY"""
import pathlib
import re
import subprocess
import sys


def main(root: pathlib.Path, library: str) -> int:
    headers = "".join(h.read_text() for h in (root / "include").rglob("*.h*"))
    shown = r"#pragma GCC visibility push\(default\)(.*?)#pragma GCC visibility pop"
    for h in (root / "src").rglob("*.hpp"):
        headers += "".join(re.findall(shown, h.read_text(), re.S))
    public = set(re.findall(r"\w+", headers)) | {"c"}
    listed = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, capture_output=True, text=True)
    wrong, seen = 0, 0
    for line in listed.stdout.splitlines():
        kind, name = line.split(" ", 2)[1:]
        if kind in "VWu":  # of the compiler and the standard library's templates
            continue
        name = re.sub(r"^(vtable|typeinfo|typeinfo name|TLS \w+ function|guard variable|non-virtual thunk) (for|to) ", "", name)
        path = re.split(r"[(<\[{]", name)[0]
        seen += 1
        if hidden := [part for part in re.findall(r"\w+", path) if part not in public]:
            print(f"exports: {name} is visible, and no header shows {hidden[0]}")
            wrong += 1
    if seen < 100:
        print(f"exports: only {seen} symbols are visible")
        wrong += 1
    for header in sorted((root / "include").rglob("*.h*")):
        text = header.read_text()
        apart = header.name in ("berth.hpp", "stack_alloc.h") or "adapters" in header.parts
        if not apart and ("visibility push(default)" not in text or "visibility pop" not in text):
            print(f"exports: {header.relative_to(root)} does not say that it is visible")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
