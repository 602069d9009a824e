#!/usr/bin/env python3
"""Applies mutants to the parts that must never break, and lists those that no test kills.

usage: scripts/mutants.py [--build DIR] [--group NAME] [--match TEXT...] [--sample N [--seed S]] [--list] [--record]

A mutant is one small change of the source: from tests/mutants/by_hand.txt, or made by the rules below (a comparison, an
off by one, min for max, a dropped call, a weaker memory order). The sources of its group are compiled as one object beside
the build, and linked before the build's own library into the tests of the group, which are then run until one fails. The
build itself stays as it is and has to be complete.

--record adds the results to tests/mutants/last.txt. Mutants in tests/mutants/harmless.txt are left out: no behaviour
differs. The exit status is 1 if a mutant survives.
"""
import argparse
import hashlib
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "mutants"
SECONDS = 200  # for one test; one that takes longer counts as failing

# Sources that are compiled together; the files that mutants are made of; the tests, the quick ones first. A test that ends
# in .py is run with the repository as its argument, where the changed file is in place.
POOL = ["allocate", "backing", "biased_lock", "footprint", "free", "giving_back", "ladder", "guard/pattern", "pool", "report",
        "siblings", "stitch", "store", "streams", "thread_cache"]
GROUPS = {
    "verify": (
        [f"src/plan/verify/{name}.cpp" for name in ("verify", "overlaps", "certificate")],
        ["src/plan/verify/verify.cpp", "src/plan/verify/overlaps.cpp", "src/plan/verify/certificate.cpp"],
        ["plan_certificate_test", "plan_verify_test"],
    ),
    "refutation": (
        ["src/plan/verify/refutation.cpp", "src/plan/verify/bodies.cpp"],
        ["src/plan/verify/refutation.cpp", "src/plan/verify/bodies.cpp"],
        ["plan_refutation_test"],
    ),
    "moves": (["src/plan/verify/verify_moves.cpp"], ["src/plan/verify/verify_moves.cpp"], ["plan_moves_test"]),
    "pool": (
        [f"src/pool/{name}.cpp" for name in POOL],
        ["src/pool/store.cpp", "src/pool/store.hpp", "src/pool/streams.cpp", "src/pool/giving_back.cpp",
         "src/pool/thread_cache.cpp", "src/pool/thread_cache.hpp", "src/pool/free.cpp", "src/pool/block_map.hpp"],
        ["tests/memory_order/litmus_test.py", "pool_store_test", "pool_test", "pool_lifetime_test", "pool_streams_test",
         "pool_split_test", "pool_tight_test", "pool_handover_test", "pool_order_test", "pool_stress_test"],
    ),
    "scratch": (
        [f"src/scratch/{name}.cpp" for name in ("scratch_arena", "scratch_chunks", "holes", "scratch_invariants")],
        ["src/scratch/scratch_arena.cpp", "src/scratch/scratch_chunks.cpp", "src/scratch/holes.cpp"],
        ["scratch_test", "c_scratch_test", "openblas_stack_alloc_test"],
    ),
    "fingerprint": (["src/graph/fingerprint.cpp"], ["src/graph/fingerprint.cpp"], ["graph_test"]),
    "schedule": (["src/schedule/verify.cpp"], ["src/schedule/verify.cpp"], ["schedule_test"]),
}

# Rule, pattern, replacement. Patterns see one line of code, without comments and texts.
RULES = [
    ("less", r"(?<=[\w)\]]) < (?=[\w(*])", " <= "),
    ("less_equal", r"(?<=[\w)\]]) <= (?=[\w(*])", " < "),
    ("greater", r"(?<=[\w)\]]) > (?=[\w(*])", " >= "),
    ("greater_equal", r"(?<=[\w)\]]) >= (?=[\w(*])", " > "),
    ("equal", r" == ", " != "),
    ("not_equal", r" != ", " == "),
    ("and", r" && ", " || "),
    ("or", r" \|\| ", " && "),
    ("plus_one", r" \+ 1\b", ""),
    ("minus_one", r" - 1\b", ""),
    ("min", r"\bstd::min\b", "std::max"),
    ("max", r"\bstd::max\b", "std::min"),
    ("order", r"\bmemory_order_(?:release|acquire|acq_rel|seq_cst)\b", "memory_order_relaxed"),
    ("drop", r"^\s*(?:\w+(?:\.|->))*\w*(?:fence|wait|note|list|clear|sweep|seize|leave|flush|retire|remember|complete|"
             r"unlink|link|forget|push|insert|erase)\w*\([^;{}]*\);$", ""),
    ("drop_if", r"^(\s*)if \(.*\) (?:return|continue|break)\b[^;]*;$", ""),
]


class Mutant:
    def __init__(self, name, group, file, text, why):
        self.name, self.group, self.file, self.text, self.why = name, group, file, text, why


def bare(line):
    """The line with its comment and its texts as blanks, so that positions stay."""
    line = re.sub(r'"(?:\\.|[^"\\])*"', lambda m: '"' + " " * (len(m[0]) - 2) + '"', line)
    return re.sub(r"//.*", lambda m: " " * len(m[0]), line).rstrip() if "//" in line else line.rstrip()


def by_rules(group, file):
    source = (ROOT / file).read_text()
    lines = source.split("\n")
    seen = {}
    for number, line in enumerate(lines):
        code = bare(line)
        if code.lstrip().startswith(("#", "static_assert", "template", "using", "namespace")):
            continue
        for rule, pattern, new in RULES:
            for found in re.finditer(pattern, code):
                changed = line[: found.start()] + new + line[found.end() :]
                # A name that stays when lines move: the rule, the line's text, and which such place it is.
                place = (rule, line.strip())
                seen[place] = seen.get(place, 0) + 1
                mark = hashlib.sha256(f"{place} {seen[place]}".encode()).hexdigest()[:6]
                text = "\n".join(lines[:number] + [changed] + lines[number + 1 :])
                name = f"{file.removeprefix('src/')}:{rule}:{mark}"
                yield Mutant(name, group, file, text, f"{number + 1}: {line.strip()} -> {changed.strip()}")


def records(path):
    """Blocks of a text file, apart by empty lines: key: value, a line each; lines that begin with # are comments."""
    block = {}
    for line in [*path.read_text().splitlines(), ""]:
        if line.startswith("#"):
            continue
        if line.strip():
            key, value = line.split(": ", 1)
            block[key] = block[key] + "\n" + value if key in block else value
        elif block:
            yield block
            block = {}


def by_hand():
    for block in records(FOLDER / "by_hand.txt"):
        text = (ROOT / block["file"]).read_text()
        if text.count(block["old"]) != 1:
            sys.exit(f"{block['name']}: stands {text.count(block['old'])} times in {block['file']}")
        group = next(name for name, (_, files, _) in GROUPS.items() if block["file"] in files)
        yield Mutant(block["name"], group, block["file"], text.replace(block["old"], block.get("new", "")), block["why"])


class Build:
    def __init__(self, folder):
        self.folder = folder
        first = self.commands("libberth.a")[0]
        self.compiler = [word for word in shlex.split(first) if re.match(r"-[DI]|-std|-f|-DNDEBUG", word)]
        self.compiler.insert(0, shlex.split(first)[0])

    def commands(self, target):
        done = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True, text=True)
        return [line for line in done.stdout.splitlines() if not line.startswith("ninja:")]

    def link(self, test, first, out):
        words = shlex.split(self.commands(f"bin/{test}")[-1].replace(": && ", "").replace(" && :", ""))
        at = words.index("-o")
        words[at + 1] = str(out)
        return subprocess.run([*words[:1], str(first), "-Wl,-z,muldefs", *words[1:]], cwd=self.folder, capture_output=True,
                              text=True)


def compiled(build, mutant, work):
    """The group as one object, the mutant in it; None if it does not compile."""
    sources = GROUPS[mutant.group][0]
    overlay = work / "overlay"
    changed = overlay / pathlib.Path(mutant.file).relative_to("src")
    changed.parent.mkdir(parents=True)
    changed.write_text(mutant.text)
    unit = work / "unit.cpp"
    unit.write_text("".join(f'#include "{changed if s == mutant.file else ROOT / s}"\n' for s in sources))
    out = work / "unit.o"
    done = subprocess.run([*build.compiler[:1], f"-I{overlay}", *build.compiler[1:], "-O1", "-w", "-c", str(unit), "-o", str(out)],
                          cwd=build.folder, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr
    return out, ""


def run(command, where):
    environment = {**os.environ, "RC_PARAMS": "seed=20261121", "BERTH_STRESS_SECONDS": "5"}
    try:
        return subprocess.run(command, cwd=where, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 1, str(late), "")


def failure_of(done):
    failed = re.findall(r"^\[  FAILED  \] ([\w./]+)", done.stdout, re.M) + re.findall(r"^FAIL: (\w+)", done.stdout, re.M)
    return failed[0] if failed else f"status {done.returncode}"


def in_a_copy(mutant, work):
    """The files that a Python test reads, with the mutant among them."""
    copy = work / "copy"
    for name in {mutant.file, *(str(p.relative_to(ROOT)) for p in ROOT.glob("src/pool/*.?pp")),
                 *(str(p.relative_to(ROOT)) for p in ROOT.glob("src/core/*")), "include/berth/core/thread_directory.hpp"}:
        to = copy / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(mutant.text if name == mutant.file else (ROOT / name).read_text())
    return copy


def judged(build, mutant):
    """What killed it: a test and its failure; "" if nothing did, None if it does not compile."""
    with tempfile.TemporaryDirectory(prefix="berth_mutant_") as folder:
        work = pathlib.Path(folder)
        unit, _ = compiled(build, mutant, work)
        if unit is None:
            return None
        for test in GROUPS[mutant.group][2]:
            if test.endswith(".py"):
                done = run([sys.executable, "-B", str(ROOT / test), str(in_a_copy(mutant, work)),
                            "Protocol", "EnterAndSeize.test_the_source_says_the_same", "PendingStack.test_the_source_says_the_same",
                            "BlockMap.test_the_source_says_the_same", "ThreadDirectory.test_the_source_says_the_same"], work)
            else:
                program = work / test
                linked = build.link(test, unit, program)
                if linked.returncode != 0:
                    sys.exit(f"{mutant.name}: {test} does not link: {linked.stderr[-500:]}")
                done = run([str(program), "--gtest_brief=1"], work)
                program.unlink()
            if done.returncode != 0:
                return f"{test} {failure_of(done)}"
        return ""


def untouched(group):
    file = GROUPS[group][1][0]
    return Mutant("none", group, file, (ROOT / file).read_text(), "")


def remember(results):
    """Adds results to last.txt, in the order of their names."""
    path = FOLDER / "last.txt"
    head = "# The last result of scripts/mutants.py for each mutant that was run: its name, and the test that killed it.\n"
    known = dict(line.split(" ", 1) for line in path.read_text().splitlines() if line and not line.startswith("#")) if path.exists() else {}
    known.update(results)
    path.write_text(head + "".join(f"{name} {what}\n" for name, what in sorted(known.items())))


def main():
    arguments = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].splitlines()[0])
    arguments.add_argument("--build", default=str(ROOT / "build"))
    arguments.add_argument("--group", choices=list(GROUPS))
    arguments.add_argument("--match", nargs="+", default=[""], help="only names with one of these texts")
    arguments.add_argument("--sample", type=int, help="so many of them, by chance")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--list", action="store_true", help="names and lines alone")
    arguments.add_argument("--record", action="store_true")
    call = arguments.parse_args()
    harmless = {block["name"] for block in records(FOLDER / "harmless.txt")}
    every = list(by_hand()) + [m for group, (_, files, _) in GROUPS.items() for file in files for m in by_rules(group, file)]
    chosen = [m for m in every if m.name not in harmless and any(text in m.name for text in call.match) and call.group in (None, m.group)]
    if call.sample is not None and call.sample < len(chosen):
        chosen = random.Random(call.seed).sample(chosen, call.sample)
    if call.list:
        for m in chosen:
            print(m.name, m.file, m.why)
        return 0
    build = Build(call.build)
    for group in sorted({m.group for m in chosen}):
        wrong = judged(build, untouched(group))
        if wrong != "":
            sys.exit(f"{group}: without a mutant: {'does not compile' if wrong is None else wrong}")
    tally = {"killed": 0, "survived": 0, "not compiled": 0}
    for m in chosen:
        what = judged(build, m)
        word = "not compiled" if what is None else "killed" if what else "survived"
        tally[word] += 1
        print(f"{m.name}: {word}{' by ' + what if what else ''}{'' if what else '   ' + m.file + ' ' + m.why}", flush=True)
        if call.record and what is not None:
            remember({m.name: f"killed by {what}" if what else "SURVIVED"})
    print(", ".join(f"{count} {word}" for word, count in tally.items()))
    return 1 if tally["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
