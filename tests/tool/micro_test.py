#!/usr/bin/env python3
"""`berth plan MODEL.tflite --out PLANNED.tflite`. usage: micro_test.py BERTH MODEL"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

MODEL = sys.argv.pop()
BERTH = sys.argv.pop()
SEVERAL = os.path.join(os.path.dirname(MODEL), "subgraphs")  # WHILE, and IF in its body


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def field(data, table, i):
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * i >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * i)[0]
    return table + offset if offset else 0


def follow(data, at):
    return at + u32(data, at)


def tables(data, table, i):
    at = follow(data, field(data, table, i))
    return [follow(data, at + 4 + 4 * k) for k in range(u32(data, at))]


def sizes_of(data):
    """Of all tensors of all subgraphs (f32 here), in one list."""
    sizes = []
    for subgraph in tables(data, follow(data, 0), 2):
        for tensor in tables(data, subgraph, 0):
            shape = follow(data, field(data, tensor, 0))
            sizes.append(4)
            for dim in struct.unpack_from(f"<{u32(data, shape)}i", data, shape + 4):
                sizes[-1] *= dim
    return sizes


def plan_in(data):
    """The offsets in a model, as TFLM finds them."""
    root = follow(data, 0)
    for entry in tables(data, root, 6):
        name = follow(data, field(data, entry, 0))
        if data[name + 4:name + 4 + u32(data, name)] == b"OfflineMemoryAllocation":
            buffer = tables(data, root, 4)[u32(data, field(data, entry, 1))]
            at = follow(data, field(data, buffer, 0))
            words = struct.unpack_from(f"<{u32(data, at) // 4}i", data, at + 4)
            assert words[2] == len(words) - 3
            return list(words[3:])
    return None


class Micro(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = os.path.join(self.folder.name, "planned.tflite")

    def run_berth(self, *args):
        return subprocess.run([BERTH, "plan", *args], capture_output=True, text=True, timeout=60)

    def refused(self, what, *args):
        got = self.run_berth(*args)
        self.assertEqual((got.returncode, got.stdout), (2, ""), got.stderr)
        self.assertIn(what, got.stderr)
        self.assertEqual(got.stderr.count("\n"), 1)
        self.assertFalse(os.path.exists(self.out))

    def test_what_a_model_is_not_held_to_is_refused(self):
        self.refused("--out FILE.tflite", MODEL, "--out", self.out, "--diff", MODEL)
        self.refused("--deadline", MODEL, "--out", self.out, "--deadline", "nan")

    def test_the_plan_is_in_the_model(self):
        got = self.run_berth(MODEL, "--out", self.out, "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        answer = json.loads(got.stdout)
        self.assertTrue(answer["written"])
        self.assertLessEqual(answer["lower_bound"], answer["arena_bytes"])
        self.assertLessEqual(answer["arena_bytes"], answer["own_arena_bytes"])
        with open(self.out, "rb") as f:
            after = f.read()
        with open(MODEL, "rb") as f:
            before = f.read()
        self.assertTrue(after.endswith(before))
        self.assertEqual(plan_in(after), answer["offsets"])
        former, pinned = ({b["id"]: b for b in json.loads(self.run_berth(m, "--json").stdout)["buffers"]}
                          for m in (MODEL, self.out))
        self.assertEqual([(b["id"], b["size"]) for b in former.values()],
                         [(b["id"], b["size"]) for b in pinned.values()])
        places = [offset for offset in answer["offsets"] if offset >= 0]  # read as pins
        self.assertEqual(sorted(places), sorted(b["offset"] for b in pinned.values())[:len(places)])
        self.assertIn("written to", self.run_berth(self.out, "--out", os.path.join(self.folder.name, "again.tflite")).stdout)

    def test_several_subgraphs_are_one_plan(self):
        header = os.path.join(self.folder.name, "several-1.h")
        got = self.run_berth(SEVERAL, "--out", self.out, "--json", "--header", header, "--scratch", "2:1=777")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        answer = json.loads(got.stdout)
        self.assertEqual(answer["scratch"], [{"subgraph": 2, "operator": 1, "size": 777}])
        with open(self.out, "rb") as f:
            data = f.read()
        offsets, sizes = plan_in(data), sizes_of(data)
        self.assertEqual(len(tables(data, follow(data, 0), 2)), 6)
        self.assertEqual((offsets, len(offsets)), (answer["offsets"], len(sizes)))
        # Everything runs at some time here, so that everything is in the head, and less than it would take without reuse.
        self.assertTrue(all(at >= 0 and at % 16 == 0 and at + size <= answer["arena_bytes"] for at, size in zip(offsets, sizes)))
        self.assertLess(answer["arena_bytes"], sum(sizes) / 2)
        with open(header) as f:
            text = f.read()
        self.assertIn(f"#define SEVERAL_1_HEAD_BYTES {answer['arena_bytes']}ull\n", text)
        program = os.path.join(self.folder.name, "arena.c")
        with open(program, "w") as f:
            f.write('#include "several-1.h"\n#include "several-1.h"\n'
                    "static unsigned char arena[SEVERAL_1_ARENA_BYTES(1000)];\n"
                    "int main(void) { return sizeof arena == SEVERAL_1_HEAD_BYTES + 1008 && arena[0] == 0 ? 0 : 1; }\n")
        done = os.path.join(self.folder.name, "arena")
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", done, program], check=True)
        self.assertEqual(subprocess.run([done]).returncode, 0)
        named = self.run_berth(SEVERAL, "--out", self.out, "--header", header, "--prefix", "hand")
        self.assertEqual(named.returncode, 0, named.stderr)
        self.assertIn("several-1.h", named.stdout)
        with open(header) as f:
            self.assertIn("#define HAND_ARENA_BYTES(rest)", f.read())
        first = json.loads(self.run_berth(SEVERAL, "--json").stdout)
        self.assertEqual(first["notes"], ["the first of 6 subgraphs: what the others need while it runs is not in this plan"])

    def test_a_subgraph_count_that_lies(self):
        with open(SEVERAL, "rb") as f:
            data = bytearray(f.read())
        at = follow(data, field(data, follow(data, 0), 2))
        lying = os.path.join(self.folder.name, "lying.tflite")
        for count in (0, 5, 7, 100, 2**31, 2**32 - 1):
            struct.pack_into("<I", data, at, count)
            with open(lying, "wb") as f:
                f.write(data)
            self.refused("lying.tflite", lying, "--out", self.out)

    # TFLM's planner compares each tensor with each: minutes for a file that names one tensor over and over.
    def test_more_tensors_than_can_be_laid_out_are_refused(self):
        with open(MODEL, "rb") as f:
            data = bytearray(f.read())
        data += bytes(-len(data) % 4)
        subgraph = tables(data, follow(data, 0), 2)[0]
        for i in (1, 2, 3, 0):  # no inputs, outputs and operators; the tensors come last
            at = field(data, subgraph, i)
            struct.pack_into("<I", data, at, len(data) - at)
            data += bytes(4) if i != 0 else b""
        count = 1_000_000
        end = len(data) + 4 + 4 * count
        data += struct.pack("<I", count) + struct.pack(f"<{count}I", *(end + 4 - at for at in range(len(data) + 4, end, 4)))
        data += struct.pack("<HHi", 4, 4, 4)  # a table without fields, behind its list of fields
        many = os.path.join(self.folder.name, "many.tflite")
        with open(many, "wb") as f:
            f.write(data)
        self.refused("more than 2^15 tensors and scratch buffers", many, "--out", self.out)

    def test_scratch(self):
        got = json.loads(self.run_berth(MODEL, "--out", self.out, "--json", "--scratch", "0=1KiB", "--scratch", "0=8").stdout)
        self.assertEqual(got["scratch"][:2], [{"subgraph": 0, "operator": 0, "size": 1024}, {"subgraph": 0, "operator": 0, "size": 8}])

    def test_bad_calls(self):
        problem = os.path.join(self.folder.name, "p.csv")
        with open(problem, "w") as f:
            f.write("id,lower,upper,size\nx,0,2,8\n")
        self.refused("not a TFLite model", problem, "--out", self.out)
        self.refused("--scratch", MODEL, "--scratch", "0=8")
        for bad in ("8", "x=8", "0=", "=8", "0=x", "-1=8", ":0=8", "0:=8", "x:0=8", "0:0:0=8", "-1:0=8", "0=0:8"):
            self.refused("is not [SUBGRAPH:]OPERATOR=BYTES", MODEL, "--out", self.out, f"--scratch={bad}")
        self.refused("scratch of operator 0 of subgraph 9, and there are 6", SEVERAL, "--out", self.out, "--scratch", "9:0=8")
        header = os.path.join(self.folder.name, "a.h")
        for option in ("--header", "--keep", "--diff", "--shard", "--move"):
            self.refused(f"{option}: is empty", MODEL, "--out", self.out, f"{option}", "")
        named = os.path.join(self.folder.name, "model.h")
        shutil.copy(MODEL, named)
        self.refused("is what was read", named, "--out", self.out, "--header", named)
        self.refused("does not end in .h", MODEL, "--out", self.out, "--header", self.out + ".c")
        self.refused("--header: with --out FILE.tflite only", MODEL, "--header", header)
        self.refused("--header: with --out FILE.tflite only", MODEL, "--out", header, "--header", header)
        self.refused("--prefix: with --out FILE.tflite for --header only", MODEL, "--out", self.out, "--prefix", "x")
        self.refused("a.h", MODEL, "--out", self.out, "--header", os.path.join(self.folder.name, "none", "a.h"))
        self.assertFalse(os.path.exists(header))
        nowhere = os.path.join(self.folder.name, "none", "planned.tflite")
        self.refused("planned.tflite: cannot write", MODEL, "--out", nowhere, "--header", header)
        self.assertFalse(os.path.exists(header))
        with open(header, "w") as f:
            f.write("as it was")
        self.refused("planned.tflite: cannot write", MODEL, "--out", nowhere, "--header", header)
        with open(header) as f:
            self.assertEqual(f.read(), "as it was")
        self.refused("scratch of operator 99", MODEL, "--out", self.out, "--scratch", "99=8")
        self.refused("--out FILE.tflite: with one FILE", MODEL, "--out", self.out, "--rules", "host")


if __name__ == "__main__":
    unittest.main()
