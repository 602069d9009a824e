#!/usr/bin/env python3
"""A shared library shows the names in public headers, those that private headers show to Berth's other libraries, and no
others. It hides no name that USER, an object or archive of these libraries, needs.
usage: exports.py REPOSITORY LIBRARY [USER...]"""
import pathlib
import re
import subprocess
import sys


def symbols(option: str, file: str) -> list[list[str]]:
    """The kind and the mangled name of each symbol that nm lists."""
    listed = subprocess.run(["nm", option, file], check=True, capture_output=True, text=True)
    return [line.split()[-2:] for line in listed.stdout.splitlines() if len(line.split()) >= 2]


def hidden_from(users: list[str], library: str) -> set[str]:
    hidden = {name for kind, name in symbols("--defined-only", library) if kind.islower()}
    defined = {name for user in users for kind, name in symbols("--defined-only", user)}
    needed = {name for user in users for kind, name in symbols("--undefined-only", user)}
    return {name for name in (needed - defined) & hidden if "berth" in name}


def main(root: pathlib.Path, library: str, users: list[str]) -> int:
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
    for name in sorted(hidden_from(users, library)):
        print(f"exports: {name} is hidden, and another library of Berth needs it")
        wrong += 1
    for header in sorted((root / "include").rglob("*.h*")):
        text = header.read_text()
        apart = header.name in ("berth.hpp", "stack_alloc.h") or "adapters" in header.parts
        if not apart and ("visibility push(default)" not in text or "visibility pop" not in text):
            print(f"exports: {header.relative_to(root)} does not say that it is visible")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
