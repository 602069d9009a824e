#!/usr/bin/env python3
"""Checks that no file includes a header of a floor above its own, that no two headers define one type, that berth.hpp
includes every header of the core, that each room has a README which says who may call it, and that nothing reads the
environment but with secure_getenv(). usage: floors.py REPOSITORY"""
import pathlib
import re
import sys

FLOORS = [
    ["core"],
    ["rules", "scratch"],
    ["plan", "device"],
    ["pool"],
    ["graph", "schedule", "op"],
    ["trace"],
    ["model"],
    ["tool", "python", "c"],
]
# Rooms of one floor may not see each other, except in this direction.
SAME_FLOOR = {("op", "graph"), ("schedule", "graph")}
# Rooms that a higher floor may not see although they lie below it: the pool knows no plan.
HIDDEN = {("pool", "plan"), ("trace", "graph"), ("trace", "op")}

# The checker shares no code with what it checks: it includes public headers, its own, and what knows no plan.
CHECKER = pathlib.PurePath("plan/verify")
FOR_CHECKER = ("berth/", "plan/verify/", "plan/patience.hpp", "plan/sort_within.hpp")

# Within the planner: a folder includes from those before it only. The checker is read by all and reads nothing.
PLAN_FOLDERS = ["verify", "model", "bound", "greedy", "search", "single", "several", "wishes", "media", "moves", "symbolic"]

LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
NAMESPACE = re.compile(r"^namespace ?([\w:]*) \{")
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: :[^;]*)? \{")
# The ggml adapter is compiled beside ggml, also where the C library has no secure_getenv().
PLAIN_GETENV = re.compile(r"(?<!secure_)\bgetenv\(\"(?!BERTH_GGML)")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def room_of(path: pathlib.PurePath) -> str | None:
    """The room a header path names: berth/plan/solve.hpp and plan/search.hpp are both of `plan`."""
    parts = path.parts[1:] if path.parts[0] == "berth" else path.parts
    return parts[0] if len(parts) > 1 and parts[0] in LEVEL else None


def allowed(room: str, other: str) -> bool:
    if room == other or (room, other) in SAME_FLOOR:
        return True
    return LEVEL[other] < LEVEL[room] and (room, other) not in HIDDEN


def above(file: pathlib.PurePath, header: pathlib.PurePath) -> bool:
    """Whether both are of folders of the planner, and the header's comes after the file's."""
    folders = [p.parts[1] for p in (file, header) if p.parts[0] == "plan" and len(p.parts) == 3]
    return len(folders) == 2 and PLAN_FOLDERS.index(folders[0]) < PLAN_FOLDERS.index(folders[1])


def callers(room: str) -> str:
    """What the room's README says of who may call it."""
    rooms = [other for other in LEVEL if other != room and allowed(other, room)]
    return "every room above it" if room == "core" else ", ".join(rooms) or "no room; programs do"


def main(root: pathlib.Path) -> int:
    wrong = 0
    for room in LEVEL:
        readme = root / "src" / room / "README.md"
        line = f"* May be called by: {callers(room)}"
        if not readme.is_file() or line not in readme.read_text().splitlines():
            print(f"{readme.relative_to(root)}: lacks the line '{line}'")
            wrong += 1
    defined = {}  # two types of one name would be one to the linker, which takes either's inline functions for both
    for base in (root / "include" / "berth", root / "src"):
        for file in sorted(base.rglob("*.[hc]pp")) + sorted(base.rglob("*.h")):
            room = file.relative_to(base).parts[0]
            if room not in LEVEL:
                continue  # berth.hpp, the umbrella
            spaces = []
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if (opened := NAMESPACE.match(line)) and line.endswith("{"):
                    spaces.append(opened[1] or f"unnamed, in {file}")
                elif line.startswith("}  // namespace"):
                    spaces.pop()
                space = "::".join(spaces)
                if (named := TYPE.match(line)) and defined.setdefault((space, named[1]), file) != file:
                    print(f"{file.relative_to(root)}:{number}: {space}::{named[1]} stands in {defined[space, named[1]]}")
                    wrong += 1
                if PLAIN_GETENV.search(line):
                    print(f"{file.relative_to(root)}:{number}: reads the environment without core/environment.hpp")
                    wrong += 1
                found = INCLUDE.match(line)
                other = room_of(pathlib.PurePath(found[1])) if found else None
                shared = other == "plan" and CHECKER in file.relative_to(base).parents and not found[1].startswith(FOR_CHECKER)
                if other and (shared or not allowed(room, other) or above(file.relative_to(base), pathlib.PurePath(found[1]))):
                    print(f"{file.relative_to(root)}:{number}: {room} may not include {found[1]}")
                    wrong += 1
    public = root / "include" / "berth"
    included = (public / "berth.hpp").read_text()
    for file in sorted(public.rglob("*.hpp")):
        name = file.relative_to(public)
        apart = name.parts[0] == "model" or "adapters" in name.parts or name.name in ("berth.hpp", "check.hpp", "kernels.hpp",
                                                                                       "device_operators.hpp", "kernel.hpp", "operator.hpp")
        if not apart and f'#include "berth/{name}"' not in included:
            print(f"include/berth/berth.hpp: {name} is missing")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
