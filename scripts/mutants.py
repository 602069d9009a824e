#!/usr/bin/env python3
"""Applies mutants to the parts that must never break, and lists those that no test kills.

usage: nice scripts/mutants.py [--build DIR] [--match TEXT...] [--sample N] [--list]

A mutant is one small change of the source: from tests/mutants/by_hand.txt, or made by the rules below (a comparison, an
off by one, min for max, a dropped call, a weaker memory order). Its source alone is compiled, beside the build, and
linked before the other sources of its group and the build's own library into the tests of the group. These run until one
fails. The build itself stays as it is and has to be complete.

Results go to tests/mutants/last.txt. Mutants in tests/mutants/harmless.txt are not run: no behaviour differs. The exit
status is 1 if a mutant survives.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "mutants"
SECONDS = 60  # of a core for one test, which takes 18 at most without a mutant; a test that waits has ten times as long

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
         "pool_split_test", "pool_tight_test", "pool_handover_test", "pool_debug_test", "pool_order_test",
         "pool_stress_test"],
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
    def __init__(self, folder, work):
        self.folder, self.work = folder, work
        words = shlex.split(self.commands("libberth.a")[0])
        # No function of default visibility is inlined into others, so that the linker chooses the one that runs.
        self.compiler = [words[0], *(w for w in words[1:] if re.match(r"-[DI]|-std|-fPIC|-ffp", w)), "-O1", "-w", "-c"]

    def commands(self, target):
        done = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True, text=True)
        return [line for line in done.stdout.splitlines() if not line.startswith("ninja:")]

    def compile(self, group, text, out, *options):
        source = out.with_suffix(".cpp")
        source.write_text(text)
        return subprocess.run([self.compiler[0], *options, *self.compiler[1:], "-include", f"{self.work / group}.hpp", source, "-o", out],
                              cwd=self.folder, capture_output=True).returncode == 0

    def link(self, test, objects, out):
        words = shlex.split(self.commands(f"bin/{test}")[-1].replace(": && ", "").replace(" && :", ""))
        words[words.index("-o") + 1] = str(out)
        subprocess.run([words[0], *map(str, objects), "-Wl,-z,muldefs", *words[1:]], cwd=self.folder, check=True)

    def prepare(self, group):
        """Compiles the headers that a group's sources share and the unchanged sources, and runs the tests."""
        sources, _, tests = GROUPS[group]
        lines = {line for s in sources for line in (ROOT / s).read_text().splitlines()}
        header = self.work / f"{group}.hpp"
        header.write_text("".join(f"{line}\n" for line in sorted(lines) if re.match(r'#include (<|"berth/)', line)))
        subprocess.run([*self.compiler, "-x", "c++-header", str(header), "-o", f"{header}.gch"], cwd=self.folder, check=True)
        if not self.compile(group, included(sources), self.work / f"{group}.o"):
            sys.exit(f"{group} does not compile")
        for test in tests:
            failure = self.failure(test, group, None, self.work)
            if failure:
                sys.exit(f"{group}: without a mutant: {test} {failure}")

    def failure(self, test, group, mutant, work):
        """What fails in the test: its name or a status; "" if nothing does."""
        if test.endswith(".py"):
            command = [sys.executable, "-B", str(ROOT / test), str(in_a_copy(mutant, work)), "-k", "the_source_says_the_same"]
        else:
            command = [str(work / test), "--gtest_brief=1", "--gtest_fail_fast"]
            self.link(test, [*([work / "mutant.o"] if mutant else []), self.work / f"{group}.o"], command[0])
        environment = {**os.environ, "RC_PARAMS": "seed=20261121", "BERTH_STRESS_SECONDS": "2"}
        try:
            done = subprocess.run(["prlimit", f"--cpu={SECONDS}", *command], cwd=work, env=environment, text=True, errors="replace",
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10 * SECONDS)
        except subprocess.TimeoutExpired:
            return "too slow"
        if not test.endswith(".py"):
            os.remove(command[0])
        failed = re.search(r"^\[  FAILED  \] ([\w./]+)|^FAIL: (\w+)", done.stdout, re.M)
        return "" if done.returncode == 0 else (failed[1] or failed[2]) if failed else f"status {done.returncode}"


def included(sources, changed=""):
    return "".join(f'#include "{changed or ROOT / s}"\n' for s in sources)


def in_a_copy(mutant, work):
    """The repository's sources, with the mutant among them."""
    for folder in ("src", "include"):
        shutil.copytree(ROOT / folder, work / "copy" / folder, copy_function=os.symlink)
    if mutant:
        (work / "copy" / mutant.file).unlink()
        (work / "copy" / mutant.file).write_text(mutant.text)
    return work / "copy"


def judged(build, mutant):
    """What killed it: a test and its failure; "" if nothing did, None if it does not compile."""
    with tempfile.TemporaryDirectory(dir=build.work) as folder:
        work = pathlib.Path(folder)
        changed = work / "overlay" / pathlib.Path(mutant.file).relative_to("src")
        changed.parent.mkdir(parents=True)
        changed.write_text(mutant.text)
        sources, _, tests = GROUPS[mutant.group]
        text = included([mutant.file], changed) if mutant.file.endswith(".cpp") else included(sources)
        if not build.compile(mutant.group, text, work / "mutant.o", f"-I{work / 'overlay'}"):
            return None
        for test in tests:
            failure = build.failure(test, mutant.group, mutant, work)
            if failure:
                return f"{test} {failure}"
        return ""


def remember(name, what):
    """Adds a result to last.txt, in the order of their names."""
    path = FOLDER / "last.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    known = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    known[name] = f"killed by {what}" if what else "SURVIVED"
    killed = sum(text != "SURVIVED" for text in known.values())
    head = f"# The last results of scripts/mutants.py, {killed} of {len(known)} killed: a mutant, and the test that killed it.\n"
    path.write_text(head + "".join(f"{name} {text}\n" for name, text in sorted(known.items())))


def spread(mutants):
    """The mutants in an order by chance that is always the same. It takes one of each source in turn, a header with it."""
    files = {}
    for m in mutants:
        files.setdefault(m.file.split(".")[0], []).append(m)
    for some in files.values():
        random.Random(1).shuffle(some)
    return [m for turn in itertools.zip_longest(*files.values()) for m in turn if m]


def main():
    arguments = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].splitlines()[0])
    arguments.add_argument("--build", default=str(ROOT / "build"))
    arguments.add_argument("--match", nargs="+", default=[""], help="only names with one of these texts")
    arguments.add_argument("--sample", type=int, help="so many by rules, spread over the files; and all by hand")
    arguments.add_argument("--list", action="store_true", help="names and lines alone")
    call = arguments.parse_args()
    harmless = {block["name"] for block in records(FOLDER / "harmless.txt")}
    ruled = spread(m for group, (_, files, _) in GROUPS.items() for file in files for m in by_rules(group, file))
    chosen = [*by_hand(), *[m for m in ruled if m.name not in harmless][: call.sample]]
    chosen = [m for m in chosen if any(text in m.name for text in call.match)]
    if call.list:
        for m in chosen:
            print(m.name, m.file, m.why)
        return 0
    tally = {"killed": 0, "survived": 0, "not compiled": 0}
    with tempfile.TemporaryDirectory(prefix="berth_mutants_") as work, concurrent.futures.ThreadPoolExecutor(2) as two:
        build = Build(call.build, pathlib.Path(work))
        list(two.map(build.prepare, sorted({m.group for m in chosen})))
        for m, what in zip(chosen, two.map(lambda m: judged(build, m), chosen)):
            word = "not compiled" if what is None else "killed" if what else "survived"
            tally[word] += 1
            print(f"{m.name}: {word}{' by ' + what if what else ''}{'' if what else '   ' + m.file + ' ' + m.why}", flush=True)
            if what is not None:
                remember(m.name, what)
    print(", ".join(f"{count} {word}" for word, count in tally.items()))
    return 1 if tally["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
