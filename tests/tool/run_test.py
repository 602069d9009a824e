#!/usr/bin/env python3
"""`berth run` on a model written here: one Relu over [n, 8]. usage: run_test.py BERTH"""
import ctypes.util
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from protobuf import field

BERTH = sys.argv.pop(1)
MODULES = glob.glob(os.path.join(os.path.dirname(BERTH), "../lib/**/berth_onednn.so"), recursive=True)


def tensor(element, *dims):
    """The type of a value: ONNX's number of its elements, 1 for floats."""
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(2, field(1, field(1, element) + field(2, shape)))


def floats(*dims):
    return tensor(1, *dims)


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def model(nodes, inputs, outputs, rest=b""):
    """nodes: (operator, inputs, outputs)."""
    graph = b"".join(field(1, b"".join(field(1, i) for i in ins) + b"".join(field(2, o) for o in outs) + field(3, op + outs[0]) + field(4, op))
                     for op, ins, outs in nodes)
    graph += field(2, "g") + rest + b"".join(field(11, field(1, n) + t) for n, t in inputs)
    graph += b"".join(field(12, field(1, n) + t) for n, t in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def weights(name, *dims):
    count = 1
    for d in dims:
        count *= d
    return field(5, b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name) + field(9, b"\0\0\x80\x3f" * count))


def relu(width=8):
    shape = field(1, field(2, "n")) + field(1, field(1, width))
    floats = field(2, field(1, field(1, 1) + field(2, shape)))
    node = field(1, "x") + field(2, "y") + field(3, "relu") + field(4, "Relu")
    graph = field(1, node) + field(2, "g") + field(11, field(1, "x") + floats) + field(12, field(1, "y") + floats)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model = os.path.join(self.folder.name, "relu.onnx")
        with open(self.model, "wb") as f:
            f.write(relu())

    def run_berth(self, *args):
        return subprocess.run([BERTH, "run", self.model, *args], capture_output=True, text=True, timeout=60)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, content):
        with open(self.model, "wb") as f:
            f.write(content)

    # Each convolution lays x out anew, under one name: the plan could not be read back.
    def test_the_plan_of_two_convolutions_of_one_input_is_verified(self):
        self.write(model([("Conv", ["x", "w1"], ["y"]), ("Conv", ["x", "w2"], ["z"])], [("x", floats(1, 16, 8, 8))],
                         [("y", floats(1, 4, 8, 8)), ("z", floats(1, 8, 8, 8))], weights("w1", 4, 16, 1, 1) + weights("w2", 8, 16, 1, 1)))
        for call in (["plan", self.model, "--out", self.path("plan.json")], ["verify", self.model, self.path("plan.json")]):
            got = subprocess.run([BERTH, *call], capture_output=True, text=True, timeout=60)
            self.assertEqual((got.returncode, got.stderr), (0, ""), got)
        with open(self.path("plan.json")) as f:
            self.assertIn("laid_out", f.read())

    def test_two_outputs_are_two_files(self):
        self.write(model([("Relu", ["x"], ["a/b"]), ("Relu", ["x"], ["a_b"]), ("Relu", ["x"], ["A:B"])], [("x", floats(2, 3))],
                         [("a/b", floats(2, 3)), ("a_b", floats(2, 3)), ("A:B", floats(2, 3))]))
        got = self.run_berth("--out", self.path("out"), "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        files = [o["file"] for o in json.loads(got.stdout)["outputs"]]
        self.assertEqual(files, [self.path("out/" + n) for n in ("a_b.npy", "a_b_2.npy", "A_B_3.npy")])
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["A_B_3.npy", "a_b.npy", "a_b_2.npy"])
        over = self.run_berth("--out", self.path("out"), "--input", "x=" + self.path("out/a_b.npy"))
        self.assertEqual((over.returncode, over.stderr.count("\n")), (2, 1))
        self.assertIn("is what was read", over.stderr)
        names = ["a", "A", "a_2", "A_2", "a:", "a/", "A_3", "A\\"]
        self.write(model([("Relu", ["x"], [n]) for n in names], [("x", floats(2, 3))], [(n, floats(2, 3)) for n in names]))
        files = [o["file"] for o in json.loads(self.run_berth("--out", self.path("more"), "--json").stdout)["outputs"]]
        self.assertEqual([os.path.basename(f)[:-4] for f in files], ["a", "A_2", "a_2_2", "A_2_3", "a_", "a__2", "A_3", "A__3"])

    def test_other_elements_than_f32_are_read_run_and_written(self):
        half, double, words, bits = 10, 11, 7, 9
        self.write(model([("Relu", ["h"], ["rh"]), ("Less", ["d", "d2"], ["lt"]), ("Gather", ["h", "i"], ["g"])],
                         [("h", tensor(half, 4)), ("d", tensor(double, 2)), ("d2", tensor(double, 2)), ("i", tensor(words, 3))],
                         [("rh", tensor(half, 4)), ("lt", tensor(bits, 2)), ("g", tensor(half, 3))]))
        for name, content in (("h", npy("<f2", (4,), struct.pack("<4e", -1, 2, 0.5, -3))), ("d", npy("<f8", (2,), struct.pack("<2d", 1, 2))),
                              ("d2", npy("<f8", (2,), struct.pack("<2d", 1 + 2**-52, 2))), ("i", npy("<i8", (3,), struct.pack("<3q", 3, 0, -3)))):
            with open(self.path(name + ".npy"), "wb") as f:
                f.write(content)
        inputs = [a for name in ("h", "d", "d2", "i") for a in ("--input", f"{name}={self.path(name)}.npy")]
        got = self.run_berth(*inputs, "--out", self.path("out"), "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertEqual([o["dtype"] for o in json.loads(got.stdout)["outputs"]], ["f16", "bool", "f16"])
        for name, descr, want in (("rh", b"'<f2'", struct.pack("<4e", 0, 2, 0.5, 0)), ("lt", b"'|b1'", b"\1\0"),
                                  ("g", b"'<f2'", struct.pack("<3e", -3, -1, 2))):
            with open(self.path(f"out/{name}.npy"), "rb") as f:
                written = f.read()
            self.assertIn(descr, written)
            self.assertEqual(written[-len(want):], want, name)
        self.assertEqual(self.run_berth().returncode, 0)  # every type has a default
        wrong = self.run_berth("--input", f"h={self.path('d.npy')}")
        self.assertEqual((wrong.returncode, wrong.stderr.count("\n")), (2, 1))
        self.assertIn("its elements are f64, input 'h' takes f16", wrong.stderr)

    # Planned, verified and put in order by its shapes, with the reason; not run.
    def test_a_model_that_does_not_run_here_is_planned_by_its_shapes(self):
        self.write(model([("Frob", ["x"], ["y"]), ("Relu", ["y"], ["z"])], [("x", floats("n", 64))], [("z", floats("n", 4))],
                         field(13, field(1, "y") + floats("n", "k"))))

        def call(*args):
            return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)

        got = call("plan", self.model, "--dim", "n=2")
        self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1))
        self.assertIn("dimension 1 of its result 'y' is not known (the operator is not known here); say it with --dim k=N", got.stderr)
        sizes = ("--dim", "n=2", "--dim", "k=4")
        got = call("plan", self.model, *sizes, "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        plan = json.loads(got.stdout)
        self.assertEqual({b["id"]: b["size"] for b in plan["buffers"]}, {"x": 512, "y": 32})
        self.assertEqual(len(plan["notes"]), 2)
        self.assertIn("planned by its shapes alone, since it does not run here", plan["notes"][0])
        self.assertEqual(plan["notes"][1], "node 'Froby' (Frob): its results are as the file or the caller says, since the "
                                           "operator is not known here")
        with open(self.path("plan.json"), "w") as f:
            f.write(got.stdout)
        self.assertEqual(call("verify", self.model, self.path("plan.json"), *sizes).returncode, 0)
        self.assertEqual(call("plan", "--reorder", self.model, *sizes, "--json").returncode, 0)
        self.assertIn("note          planned by its shapes alone", call("plan", self.model, *sizes).stdout)
        self.assertEqual(self.run_berth(*sizes).returncode, 2)
        self.write(relu())
        self.assertNotIn("notes", json.loads(call("plan", self.model, "--dim", "n=2", "--json").stdout))

    # The branch's need is unknown, so that no plan is the least.
    def test_a_plan_that_does_not_count_all_is_not_called_optimal(self):
        name = field(12, field(1, "t"))
        graphs = b"".join(field(5, field(1, which) + field(20, 5) + field(6, field(1, field(1, "x") + field(2, "t") +
                          field(4, op)) + field(2, "g") + name)) for which, op in (("then_branch", "Frob"), ("else_branch", "Neg")))
        graph = field(1, field(1, "c") + field(2, "y") + field(4, "If") + graphs) + field(2, "g")
        graph += field(11, field(1, "x") + floats(64)) + field(12, field(1, "y") + floats(64))
        graph += field(11, field(1, "c") + field(2, field(1, field(1, 9) + field(2, b""))))
        self.write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
        got = subprocess.run([BERTH, "plan", self.model, "--json"], capture_output=True, text=True, timeout=60)
        plan = json.loads(got.stdout)
        self.assertEqual((plan["optimal"], plan["arena_bytes"]), (False, plan["lower_bound"]))
        self.assertTrue(any("is not counted" in note for note in plan["notes"]), plan["notes"])
        shown = subprocess.run([BERTH, "plan", self.model], capture_output=True, text=True, timeout=60).stdout
        self.assertIn("optimal       not proved: a note names memory that is not counted", shown)

    def test_external_data_is_read_beside_the_model_and_not_for_planning(self):
        entry = field(13, field(1, "location") + field(2, "w.bin"))
        weight = field(5, field(1, 4) + field(2, 1) + field(8, "w") + entry + field(14, 1))
        self.write(model([("Add", ["x", "w"], ["y"])], [("x", floats(2, 4))], [("y", floats(2, 4))], weight))
        got = self.run_berth()
        self.assertEqual((got.returncode, got.stderr.count("\n")), (2, 1), got)
        self.assertIn("tensor 'w', external data: there is no file 'w.bin' beside the model", got.stderr)
        with open(self.path("w.bin"), "wb") as f:
            f.write(b"\0" * 16)
        self.assertEqual(self.run_berth().returncode, 0)
        plan = subprocess.run([BERTH, "plan", self.model], capture_output=True, text=True, timeout=60)
        self.assertEqual(plan.returncode, 0)
        self.assertIn("tensor 'w': external data is not read here", plan.stdout)

    def test_a_model_comes_through_a_pipe(self):
        got = subprocess.run([BERTH, "run", "-", "--dim", "n=4", "--json"], input=relu(), capture_output=True, timeout=60)
        self.assertEqual((got.returncode, got.stderr, json.loads(got.stdout)["arena_bytes"]), (0, b"", 128))

    def test_other_models_are_named(self):
        os.rename(self.model, self.path("m.tflite"))
        self.model = self.path("m.tflite")
        got = self.run_berth()
        self.assertEqual(got.returncode, 2)
        self.assertIn("TensorFlow Lite models are planned (berth plan), not run", got.stderr)

    def test_wrong_dimensions_without_a_name_are_one_line(self):
        self.write(model([("Relu", ["x"], ["y"])], [("x", floats("", 8))], [("y", floats("", 8))]))
        for extent in ("2", "0"):
            self.assertEqual(self.run_berth("--dim", "x.0=" + extent).returncode, 0)
        for words in ([], ["x.1=7"], ["x.2=1"], ["y.0=1"], ["none.0=1"], ["x.-1=1"], ["x.99999999999999999999=1"], [".0=1"], ["x.=1"],
                      ["x.0=-1"], ["x.0="], ["x.0=x"], ["x.0"], ["=1"], ["x.0=1", "x.0=2"], ["x.0=1", "x.1=7"],
                      ["x.0=1", "n=1"], ["x.0=18446744073709551616"]):
            got = self.run_berth(*(part for word in words for part in ("--dim", word)))
            self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), (words, got.stderr))

    def test_a_dimension_is_bound(self):
        got = self.run_berth("--dim", "n=4", "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        answer = json.loads(got.stdout)
        self.assertEqual((answer["outputs"][0]["shape"], answer["arena_bytes"], answer["leaks"]), ([4, 8], 128, 0))

    def with_kernels(self, kernels, *args):
        return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60, env={**os.environ, "BERTH_ONEDNN": kernels})

    def test_models_run_without_a_library_of_kernels(self):
        own = json.loads(self.with_kernels("none", "run", self.model, "--dim", "n=4", "--json").stdout)
        self.assertEqual((own["kernels"], own["allocations_in_steady_state"]), ("Berth's own", 0))
        self.assertIn("Berth's own: BERTH_ONEDNN=none", self.with_kernels("none", "run", self.model, "--dim", "n=4").stdout)
        found = json.loads(self.with_kernels("", "run", self.model, "--dim", "n=4", "--json").stdout)
        self.assertEqual(found["outputs"], own["outputs"])
        self.assertRegex(found["kernels"], r"^oneDNN \d.*, threads: \d+$" if MODULES else "^Berth's own$")

    def test_a_module_that_cannot_be_used_ends_the_command(self):
        wrong = [(self.path("missing.so"), "cannot open shared object file"), (self.model, "relu.onnx: "),
                 (ctypes.util.find_library("z"), "cannot open shared object file")]
        with open("/proc/self/maps") as maps:
            some = re.search(r"/\S+/libc\.so\S*", maps.read())
        wrong.append((some[0], "not a module of Berth's kernels"))
        if MODULES:
            with open(MODULES[0], "rb") as f:
                module = f.read()
            other, count = re.subn(rb"(\d+\.\d+\.\d+-)[0-9a-f]{12}\0", rb"\g<1>000000000000\0", module)
            self.assertEqual(count, 1)
            with open(self.path("other.so"), "wb") as f:
                f.write(other)
            wrong.append((self.path("other.so"), "of another version of Berth"))
        for file, says in wrong:
            got = self.with_kernels(file, "run", self.model, "--dim", "n=4")
            self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
            self.assertIn("BERTH_ONEDNN: ", got.stderr)
            self.assertIn(says, got.stderr)
            planned = json.loads(self.with_kernels(file, "plan", self.model, "--dim", "n=4", "--json").stdout)
            self.assertIn("BERTH_ONEDNN: ", planned["notes"][0])

    @unittest.skipUnless(MODULES, "oneDNN was not found")
    def test_a_plan_names_the_kernels_whose_workspaces_it_has(self):
        self.write(model([("Conv", ["x", "w"], ["y"])], [("x", floats(1, 16, 8, 8))], [("y", floats(1, 4, 6, 6))], weights("w", 4, 16, 3, 3)))
        plan = self.path("plan.json")
        self.assertEqual(self.with_kernels("none", "plan", self.model, "--out", plan).returncode, 0)
        with open(plan) as f:
            self.assertEqual(json.load(f)["kernels"], "Berth's own")
        self.assertEqual(self.with_kernels("none", "verify", self.model, plan).stdout, "ok\n")
        got = self.with_kernels("", "verify", self.model, plan)
        self.assertIn("workspaces of Berth's own, here are those of oneDNN", got.stdout + got.stderr)
        diff = json.loads(self.with_kernels("", "plan", self.model, "--diff", plan, "--growth", "1MiB", "--json").stdout)["diff"]
        self.assertEqual(diff["kernels_before"], "Berth's own")
        self.assertIn("oneDNN", diff["kernels"])
    # Convolution, product and element-wise nodes over an open batch.
    def write_batched(self):
        rest = weights("w", 4, 3, 3, 3) + weights("v", 4, 5)
        self.write(model([("Conv", ["x", "w"], ["c"]), ("Relu", ["c"], ["r"]), ("GlobalAveragePool", ["r"], ["p"]), ("Flatten", ["p"], ["f"]),
                          ("MatMul", ["f", "v"], ["m"]), ("Softmax", ["m"], ["s"]), ("Mul", ["s", "m"], ["y"])],
                         [("x", floats("n", 3, 8, 8))], [("y", floats("n", 5)), ("r", floats("n", 4, 6, 6))], rest))

    def test_one_arena_runs_every_value_of_a_range(self):
        self.write_batched()
        got = self.run_berth("--dim", "n=1:32", "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        answer = json.loads(got.stdout)
        self.assertEqual([run["value"] for run in answer["runs"]], list(range(1, 33)))
        for run in answer["runs"]:
            self.assertLessEqual(run["arena_bytes"], answer["reserved_bytes"])
            if run["value"] % 6 == 1 or run["value"] == 32:
                alone = json.loads(self.run_berth("--dim", f"n={run['value']}", "--json").stdout)
                self.assertEqual(run["outputs"], alone["outputs"])
                self.assertLessEqual(run["arena_bytes"], 1.05 * alone["arena_bytes"])
        table = self.run_berth("--dim", "x.0=2:3")
        self.assertEqual((table.returncode, table.stderr), (0, ""))
        self.assertIn("from 2 to 3: one arena of", table.stdout)

    def test_wrong_ranges_are_one_line(self):
        for words in (["n=4:2"], ["n=0:2"], ["n=1:"], ["n=:2"], ["n=1:x"], ["n=1:2", "n=3"], ["n=1:2", "m=1:2"], ["m=1:2"], ["n=1:-2"]):
            got = self.run_berth(*(part for word in words for part in ("--dim", word)))
            self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), (words, got.stderr))
        got = subprocess.run([BERTH, "run", "-", "--dim", "n=1:2"], capture_output=True, text=True, timeout=60)
        self.assertIn("standard input is read only once", got.stderr)
        for option in (["--reorder"], ["--out", self.path("out")], ["--input", "x=x.npy"]):
            self.assertEqual(self.run_berth("--dim", "n=1:2", *option).returncode, 2)

    def test_a_range_is_planned_as_a_problem_with_dimensions(self):
        self.write_batched()

        def call(*args):
            got = subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)
            self.assertEqual((got.returncode, got.stderr), (0, ""), args)
            return json.loads(got.stdout)
        plan = call("plan", self.model, "--dim", "n=1:32", "--problem", self.path("p.json"), "--json")
        with open(self.path("p.json")) as f:
            problem = json.load(f)
        self.assertEqual(problem["dimensions"], [{"name": "n", "least": 1, "most": 32}])
        self.assertIn("other values were not tried", plan["notes"][-1])
        self.assertTrue(plan["kernels"])
        self.assertIn("768*n", [b["size"] for b in problem["buffers"]])
        self.assertEqual(call("plan", self.path("p.json"), "--json")["arena_bytes"], plan["arena_bytes"])
        for n in (1, 2, 7, 31, 32):
            alone = call("plan", self.model, "--dim", f"n={n}", "--json")
            both = [call("plan", *model, "--at", f"n={n}", "--json") for model in ([self.model, "--dim", "n=1:32"], [self.path("p.json")])]
            for got in both:
                self.assertEqual([b["size"] for b in got["buffers"]], [b["size"] for b in alone["buffers"]])
                self.assertLessEqual(got["arena_bytes"], 1.05 * alone["arena_bytes"])

    def test_what_is_too_large_says_how_much_and_what_for(self):
        with open(self.model, "wb") as f:
            f.write(relu(1000))
        for dim, says in [("1000000000", "input 'x' of shape 1000000000x1000 takes 4000000000000 bytes, this machine has"),
                          ("1000000000000", "input 'x': a dimension exceeds 2^30: 1000000000000")]:
            got = self.run_berth("--dim", "n=" + dim)
            self.assertEqual((got.returncode, got.stderr.count("\n"), got.stdout), (2, 1, ""), got.stderr)
            self.assertIn(says, got.stderr)


if __name__ == "__main__":
    unittest.main()
