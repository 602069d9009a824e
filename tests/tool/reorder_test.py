#!/usr/bin/env python3
"""Runs `berth plan --reorder` as a script would. usage: reorder_test.py BERTH"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

import tflite
from protobuf import field, fields

BERTH = sys.argv.pop(1)

def two_branches():
    """Widening, widening, narrowing, narrowing: one branch after the other needs less. Relu and Concat by shapes; what
    an exporter leaves stands between: a view, a node that nobody reads, an If that reads a branch."""
    def floats(*dims):
        return field(2, field(1, field(1, 1) + field(2, b"".join(field(1, field(1, d)) for d in dims))))

    def node(op, ins, outs, more=b""):
        return field(1, b"".join(field(1, i) for i in ins) + b"".join(field(2, o) for o in outs) + field(4, op) + more)

    inner = b"".join(field(1, field(1, "b2") + field(2, "inner") + field(4, "Neg")) for _ in range(1))
    inner += field(2, "sub") + field(12, field(1, "inner"))
    branch = b"".join(field(5, field(1, name) + field(20, 5) + field(6, inner)) for name in ("then_branch", "else_branch"))
    graph = b"".join([node("Concat", ["x"] * 8, ["a"], field(5, field(1, "axis") + field(20, 2) + field(3, 0))),
                      node("Concat", ["x"] * 8, ["b"], field(5, field(1, "axis") + field(20, 2) + field(3, 0))),
                      field(2, "g"), node("Identity", ["a"], ["av"]), node("Neg", ["x"], ["unread"]),
                      node("Frob", ["av"], ["a2"]), node("Frob", ["b"], ["b2"]),
                      node("If", ["a2"], ["y"], branch)])
    graph += field(11, field(1, "x") + floats(64))
    graph += b"".join(field(13, field(1, n) + floats(64)) for n in ("a2", "b2", "y"))
    graph += field(12, field(1, "y") + floats(64))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)) + field(2, "a tool") + field(99, "unknown")


def over_a_peak(random=False):
    """`a` of 1 KiB is wanted at the end, over a peak of others. Random: it is another one each time."""
    def floats(n):
        return field(2, field(1, field(1, 1) + field(2, field(1, field(1, n)))))

    def node(op, ins, out, more=b""):
        return field(1, b"".join(field(1, i) for i in ins) + field(2, out) + field(4, op) + more)

    axis = field(5, field(1, "axis") + field(20, 2) + field(3, 0))
    whole = field(5, field(1, "keepdims") + field(20, 2) + field(3, 1))
    shape = field(5, field(1, "shape") + field(20, 7) + field(8, 256))
    a = node("RandomNormal", [], "a", shape) if random else node("Concat", ["x"] * 4, "a", axis)
    graph = b"".join([a, node("ReduceMean", ["a"], "small", whole),
                      node("Add", ["small", "x"], "s"), node("Concat", ["s"] * 8, "wide", axis),
                      node("ReduceMean", ["wide"], "narrow", whole), node("Add", ["narrow", "a"], "y")])
    graph += field(2, "g") + field(11, field(1, "x") + floats(64)) + field(12, field(1, "y") + floats(256))
    graph += field(13, field(1, "a") + floats(256)) if random else b""
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


class Reorder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_tool(self, *words):
        return subprocess.run([BERTH, *words], capture_output=True, text=True)

    def test_a_name_that_is_no_text_is_written(self):
        model = os.path.join(os.fsencode(self.folder.name), b"\xff.onnx")
        with open(model, "wb") as f:
            f.write(two_branches())
        out = os.path.join(self.folder.name, "order.json")
        got = subprocess.run([BERTH, "plan", model, "--reorder", "--out", out], capture_output=True, timeout=60)
        self.assertEqual(got.returncode, 0, got.stderr)
        with open(out) as f:
            self.assertIn("arena_bytes", json.load(f))

    def test_a_shard_is_of_a_folder(self):
        model = os.path.join(self.folder.name, "two.onnx")
        with open(model, "wb") as f:
            f.write(two_branches())
        got = subprocess.run([BERTH, "plan", model, "--reorder", "--shard", "1/2"], capture_output=True, timeout=60)
        self.assertEqual((got.returncode, got.stdout), (2, b""))

    def test_builtin_model(self):
        before = json.loads(self.run_tool("plan", "builtin:resnet50", "--json").stdout)
        done = self.run_tool("plan", "builtin:resnet50", "--reorder", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["verified"])
        self.assertEqual(answer["arena_before"], before["arena_bytes"])
        self.assertLessEqual(answer["arena_bytes"], answer["arena_before"])
        self.assertLessEqual(answer["lower_bound"], answer["arena_bytes"])
        self.assertEqual(answer["optimal"], answer["lower_bound"] == answer["arena_bytes"])
        self.assertEqual(sorted(answer["steps"]), list(range(answer["nodes"])))
        self.assertEqual(answer["arena_bytes"], max(b["offset"] + b["size"] for b in answer["buffers"]))

    def test_page_and_file(self):
        page = os.path.join(self.folder.name, "p.html")
        self.assertEqual(self.run_tool("plan", "builtin:transformer", "--reorder", "--quiet", "--out", page).returncode, 0)
        with open(page) as f:
            text = f.read()
        self.assertIn("given order", text)
        self.assertIn("found order", text)
        out = os.path.join(self.folder.name, "p.json")
        self.assertEqual(self.run_tool("plan", "builtin:transformer", "--reorder", "--quiet", "--out", out).returncode, 0)
        with open(out) as f:
            self.assertEqual(json.load(f)["format"], "berth-order/1")

    def test_run_gives_the_same(self):
        plain = json.loads(self.run_tool("run", "builtin:mobilenet", "--json").stdout)
        other = self.run_tool("run", "builtin:mobilenet", "--reorder", "--json")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertEqual(json.loads(other.stdout)["outputs"], plain["outputs"])

    def test_recompute(self):
        plain = json.loads(self.run_tool("plan", "builtin:resnet50", "--reorder", "--json").stdout)
        kept = self.run_tool("plan", "builtin:resnet50", "--reorder", "--budget", str(plain["arena_bytes"]), "--recompute",
                             "--json")
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertEqual(json.loads(kept.stdout)["runs_again"], 0)
        never = self.run_tool("plan", "builtin:resnet50", "--reorder", "--budget", "1KiB", "--recompute", "--json")
        self.assertEqual(never.returncode, 1)
        answer = json.loads(never.stdout)
        self.assertFalse(answer["within_budget"])
        self.assertGreater(answer["lower_bound"], 1024)
        self.assertTrue(answer["bound_held_by"])
        self.assertEqual(self.run_tool("plan", "builtin:resnet50", "--reorder", "--budget", "1KiB").returncode, 1)

    def write(self, name, data):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def test_an_onnx_file_in_the_order_found(self):
        given = two_branches()
        path, out = self.write("m.onnx", given), os.path.join(self.folder.name, "o.onnx")
        done = self.run_tool("plan", path, "--reorder", "--out", out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["changed"] and answer["verified"] and answer["optimal"])
        with open(out, "rb") as f:
            made = f.read()
        # All fields but the graph, and all of the graph but the places of the nodes, are what they were.
        self.assertEqual([f for f in fields(given) if f[0] != 7], [f for f in fields(made) if f[0] != 7])
        graphs = [fields(dict(fields(m))[7]) for m in (given, made)]
        self.assertEqual(*[[n if n == 1 else (n, v) for n, v in g] for g in graphs])
        nodes = [[v for n, v in g if n == 1] for g in graphs]
        self.assertEqual(sorted(nodes[0]), sorted(nodes[1]))
        self.assertNotEqual(nodes[0], nodes[1])
        ready, order = {b"x"}, []
        for text in nodes[1]:
            reads, makes = ([v for n, v in fields(text) if n == k] for k in (1, 2))
            self.assertLessEqual(set(reads) | ({b"b2"} if makes == [b"y"] else set()), ready)
            ready.update(makes)
            order += makes
        self.assertEqual([n.encode() for n in answer["order"]], [n for n in order if n not in (b"av", b"unread")])
        # Read as any file is: the smaller arena is the file's own now, and nothing is left to gain.
        again = json.loads(self.run_tool("plan", out, "--json").stdout)
        self.assertEqual(again["arena_bytes"], answer["arena_bytes"])
        twice = os.path.join(self.folder.name, "t.onnx")
        self.assertEqual(self.run_tool("plan", out, "--reorder", "--out", twice, "--quiet").returncode, 0)
        with open(twice, "rb") as f:
            self.assertEqual(f.read(), made)
        for words in (["plan", path, "--reorder", "--out", path],
                      ["plan", path, "--reorder", "--move", "1", "--out", out],
                      ["plan", "builtin:mobilenet", "--reorder", "--out", out]):
            done = self.run_tool(*words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), given)

    def test_values_move(self):
        plain = json.loads(self.run_tool("plan", self.write("w.onnx", over_a_peak()), "--reorder", "--json").stdout)
        path, budget = os.path.join(self.folder.name, "w.onnx"), plain["arena_bytes"] - 1
        costs = {}
        for words in (["--recompute"], ["--move", "0.5"], ["--move", "0.5,64"], ["--move", "1000", "--recompute"]):
            done = self.run_tool("plan", path, "--reorder", "--budget", str(budget), *words, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            answer = json.loads(done.stdout)
            self.assertTrue(answer["verified"] and answer["within_budget"])
            self.assertLessEqual(answer["arena_bytes"], budget)
            copies = [n for n in answer["order"] if n.startswith(("out ", "in "))]
            self.assertEqual(len(copies), answer.get("copies", 0))
            self.assertEqual(len(answer["steps"]), answer["nodes"] + answer["runs_again"] + len(copies))
            costs[" ".join(words)] = answer["extra_percent"]
            if "--move" in words:
                self.assertEqual(copies, ["out a", "in a"])
                self.assertEqual((answer["moved_bytes"], answer["slow_arena_bytes"]), (2 * 4 * 256, 4 * 256))
        self.assertGreater(costs["--move 0.5,64"], costs["--move 0.5"])
        self.assertLess(costs["--move 1000 --recompute"], costs["--recompute"])
        done = self.run_tool("plan", path, "--reorder", "--budget", "1KiB", "--move", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no steps keep it, held by node", done.stdout)

    def test_an_onnx_file_with_nodes_that_run_again(self):
        path, out = self.write("w.onnx", over_a_peak()), os.path.join(self.folder.name, "again.onnx")
        # By the file's operators one by one, as it is written.
        given = json.loads(self.run_tool("plan", path, "--reorder", "--out", out, "--json").stdout)
        budget = given["arena_bytes"] - 1
        done = self.run_tool("plan", path, "--reorder", "--recompute", "--budget", str(budget), "--out", out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["verified"] and answer["runs_again"] > 0)
        with open(out, "rb") as f:
            nodes = [[v for n, v in fields(m) if n == 2][0] for k, m in fields(dict(fields(f.read()))[7]) if k == 1]
        self.assertEqual(len(nodes), answer["nodes"] + answer["runs_again"])
        self.assertIn(b"a#2", nodes)
        # And it computes the same.
        runs = [json.loads(self.run_tool("run", m, "--json").stdout) for m in (path, out)]
        self.assertEqual(runs[0]["outputs"], runs[1]["outputs"])
        self.assertEqual(runs[1]["nodes"], runs[0]["nodes"] + answer["runs_again"])

    def test_what_is_random_runs_once(self):
        path, out = self.write("r.onnx", over_a_peak(random=True)), os.path.join(self.folder.name, "once.onnx")
        done = self.run_tool("plan", path, "--reorder", "--recompute", "--out", out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["verified"])
        self.assertNotIn("a#2", answer["order"])
        with open(out, "rb") as f:
            ops = [[v for n, v in fields(m) if n == 4][0] for k, m in fields(dict(fields(f.read()))[7]) if k == 1]
        self.assertEqual(ops.count(b"RandomNormal"), 1)

    def test_standard_input(self):
        given = two_branches()
        path, out = self.write("m.onnx", given), os.path.join(self.folder.name, "o.onnx")

        def of(data, *words):
            return subprocess.run([BERTH, "plan", "-", "--reorder", *words], input=data, capture_output=True)

        kept = json.loads(self.run_tool("plan", path, "--reorder", "--json").stdout)
        piped = json.loads(of(given, "--json").stdout)
        for answer in (kept, piped):
            for key in ("elapsed_ms", "model"):
                del answer[key]
        self.assertEqual(json.dumps(kept), json.dumps(piped))
        self.assertEqual(of(given, "--out", out, "--quiet").returncode, 0)
        shape = {"type": "f32", "ne": [8, 2, 1, 1], "nb": [4, 32, 64, 64], "size": 64}
        rows = [{"schema": "ggml-graph-trace/1", "graph": "g", "align": 32, "n_tensors": 2},
                {"id": 0, "k": "leaf", "name": "in", "op": "NONE", "fl": "I", **shape},
                {"id": 1, "k": "node", "name": "a", "op": "ADD", "src": [0, 0], **shape}]
        trace = "\n".join(map(json.dumps, rows)).encode()
        self.assertEqual(json.loads(of(trace, "--json").stdout)["order"], ["a"])
        self.assertEqual(json.loads(of(gzip.compress(trace), "--json").stdout)["order"], ["a"])
        self.assertEqual(of(trace, "--dim", "n=1").returncode, 2)
        self.assertEqual(of(trace, "--out", out).returncode, 2)
        for data in (b"", b"{", b"nonsense", given[:100]):
            done = of(data)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, b"", 1), done.stderr)

    def test_wrong_calls(self):
        problem = self.write("p.csv", b"id,lower,upper,size\na,0,1,8\n")
        model, other = self.write("m.onnx", over_a_peak()), os.path.join(self.folder.name, "other.onnx")
        for words in (["plan", problem, "--reorder"],
                      ["plan", "builtin:mobilenet", "--reorder", "--out", "x.csv"],
                      ["plan", "builtin:mobilenet", "--reorder", "--capacity", "1MiB"],
                      ["plan", "builtin:mobilenet", "--recompute"],
                      ["plan", "builtin:mobilenet", "--move", "1"],
                      *(["plan", "builtin:mobilenet", "--reorder", "--move", wrong]
                        for wrong in ("0", "-1", "nan", "inf", "x", "1,", "1,-1", "1,nan", "1,2,3", ",1", "", " 1", "1 ", "1e400",
                                      "1e-320")),
                      *(["plan", "builtin:mobilenet", "--reorder", "--budget", wrong] for wrong in ("x", "", "-1", "1.5.2")),
                      *(["plan", "builtin:mobilenet", "--reorder", "--recompute", "--out", wrong]
                        for wrong in ("x.csv", "x", ".", "/nonexistent/x.json", "x.onnx")),
                      ["plan", model, "--reorder", "--recompute", "--out", model],
                      ["plan", model, "--reorder", "--recompute", "--out", "/nonexistent/x.onnx"],
                      ["plan", model, "--reorder", "--recompute", "--move", "1", "--out", other],
                      ["plan", model, "--reorder", "--move", "1", "--move", "2"],
                      ["plan", model, "--reorder", "--scratch", "0=8"],
                      ["plan", model, "--reorder", "--header", "x.h"],
                      *(["plan", model, "--reorder", "--dim", wrong] for wrong in ("x=1", "x.0=64", "x.9=1", ".0=1", "x.=1", "x.0=")),
                      ["plan", "builtin:none", "--reorder"]):
            done = self.run_tool(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        with open(model, "rb") as f:
            self.assertEqual(f.read(), over_a_peak())
        self.assertFalse(os.path.exists(other))

    def test_a_tflite_model_is_written_in_its_new_order(self):
        # Two wide results and a narrow one of each: one after the other needs one wide result at a time.
        tensors = [(name, [size], None) for name, size in
                   (("x", 16), ("a", 4000), ("b", 4000), ("a2", 16), ("b2", 16), ("y", 16))]
        with tempfile.TemporaryDirectory() as folder:
            file, out = os.path.join(folder, "m.tflite"), os.path.join(folder, "o.tflite")
            with open(file, "wb") as f:
                f.write(tflite.model(tensors, [0], [5], [([0], [1]), ([0], [2]), ([1], [3]), ([2], [4]), ([3, 4], [5])]))
            done = self.run_tool("plan", file, "--reorder", "--json", "--out", out)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            answer = json.loads(done.stdout)
            self.assertEqual((answer["arena_before"], answer["arena_bytes"]), (8016, 4032))
            self.assertEqual(json.loads(self.run_tool("plan", out, "--json").stdout)["arena_bytes"], 4032)
            for words in (["--out", os.path.join(folder, "o.onnx")], ["--dim", "open=2"]):
                done = self.run_tool("plan", file, "--reorder", *words)
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1))


if __name__ == "__main__":
    unittest.main()
