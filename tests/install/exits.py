#!/usr/bin/env python3
"""No object of a library is destroyed when the program ends: what still runs then may use it. usage: exits.py LIBRARY..."""
import re
import subprocess
import sys


def main(libraries: list[str]) -> int:
    wrong, seen = 0, 0
    for library in libraries:
        listed = subprocess.run(["nm", "-AC", library], check=True, capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            seen += 1
            if re.search(r" U __cxa_atexit\b", line):
                print(f"exits: {line.split(': ')[0]} has a static object with a destructor")
                wrong += 1
    if seen < 100:
        print(f"exits: only {seen} symbols are there")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
