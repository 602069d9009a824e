#!/usr/bin/env python3
"""Makes the planner a pair of files, berth_plan.h and berth_plan.cpp, for projects that vendor it.

usage: amalgamate.py DIRECTORY

The header is berth/plan.h with berth/status.h in it (C99); the source is floors 0 to 2 behind it, in one translation unit: C++20 and its standard
library, no other dependency, with or without exceptions and run-time types. Headers are put where they are first included;
names that several sources keep in their unnamed namespaces get the source's name behind them, since all share one unit here.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ["core", "rules", "plan"]
FACES = [ROOT / "include/berth/status.h", ROOT / "include/berth/plan.h"]  # the sources of berth_plan.h
INCLUDE = re.compile(r'^#include "([^"]+)"')
SYSTEM = re.compile(r"^#include (<[^>]+>)")
PRAGMA = re.compile(r"^#pragma once")


def find(name):
    for base in (ROOT / "include", ROOT / "src"):
        if (base / name).is_file():
            return base / name
    sys.exit(f"amalgamate: {name} is included, and is in no folder")


def body_of(path, seen, system):
    """The file's lines, its own headers in front of it once."""
    out = []
    for line in path.read_text().splitlines():
        if m := INCLUDE.match(line):
            header = find(m[1])
            if header in FACES:
                continue
            if header not in seen:
                seen.add(header)
                out += body_of(header, seen, system)
        elif m := SYSTEM.match(line):
            system.add(m[1])
        elif not PRAGMA.match(line):
            out.append(line)
    return out


# The definitions at the left margin of a formatted source's unnamed namespaces.
OWN = [re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)"), re.compile(r"^using (\w+) ="),
       re.compile(r"^(?:static |inline |thread_local )*(?:constexpr|const) [\w:<>,&* ]+?[ &*](\w+)(?:\[\w*\])* *[={;]"),
       re.compile(r"^\w[\w:<>,&*\[\]() ]*[ *&](\w+)\(")]


USING = re.compile(r"^using [\w:]*::(\w+);")  # a name from elsewhere, which no other source may define then


def own_names(lines, rules=OWN):
    names, depth = set(), 0
    for line in lines:
        if re.match(r"^namespace \{$", line):
            depth = 1
        elif re.match(r"^\}  // namespace$", line):
            depth = 0
        elif depth or line.startswith("static "):
            names |= {m[1] for rule in rules if (m := rule.match(line))}
    return names


def renamed(lines, names, suffix):
    """Each name that stands alone: not a member of something, nor of another namespace, nor in a text or comment."""
    if not names:
        return lines
    word = re.compile(r'("(?:[^"\\]|\\.)*"|//.*)|(?<![\w.:>])(?<!->)(' + "|".join(sorted(names)) + r")\b")
    return [word.sub(lambda m: m[1] or m[2] + suffix, line) for line in lines]


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    to = pathlib.Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    seen, system = set(), set()
    text = []
    face = ROOT / "src/c/plan.cpp"
    includes = [find(m[1]) for line in face.read_text().splitlines() if (m := INCLUDE.match(line))]
    sources = sorted(p for s in SOURCES for p in (ROOT / "src" / s).rglob("*.cpp")) + [
        header for header in includes if header not in FACES] + [ROOT / "src/c/status.cpp", face]
    sections = [(source, body_of(source, seen, system)) for source in sources if source not in seen and not seen.add(source)]
    texts = [source.read_text().splitlines() for source in sources]
    own = [own_names(lines) for lines in texts]
    taken = [names | own_names(lines, [USING]) for names, lines in zip(own, texts)]
    for (source, lines), mine in zip(sections, own):
        shared = {name for name in mine if sum(name in names for names in taken) > 1}
        # Keeps all but the C functions inside, so that two projects that vendor it can be linked into one program.
        if source == face:
            text.append("}  // namespace")
        text.append(f"// --- {source.relative_to(ROOT)}")
        text += renamed(lines, shared, "_in_" + source.stem)
    version = re.search(r"VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    head = [f"// Berth {version}, the planner in one file: made by scripts/amalgamate.py, not to be edited. Apache-2.0.",
            '#include "berth_plan.h"', ""] + [f"#include {name}" for name in sorted(system)] + [
        "", "#if defined(__GNUC__)", '#pragma GCC diagnostic ignored "-Wunused-function"',
        '#pragma GCC diagnostic ignored "-Wmissing-field-initializers"', "#endif", "", "namespace {"]
    (to / "berth_plan.cpp").write_text("\n".join(head + text) + "\n")
    status, plan = (header.read_text() for header in FACES)
    (to / "berth_plan.h").write_text(plan.replace('#include "berth/status.h"\n', status))


main()
