#!/usr/bin/env python3
"""`berth run --device ascend:0` on the simulator, beside the host. usage: run_on_device_test.py BERTH FOLDER_OF_THE_SIMULATOR FOLDER_OF_MODELS"""
import array
import json
import os
import subprocess
import sys
import tempfile
import unittest

MODELS = sys.argv.pop(3)
SIMULATOR = sys.argv.pop(2)
BERTH = sys.argv.pop(1)


def berth(*arguments, schedule="eager", profile="A2"):
    there = {**os.environ, "LD_LIBRARY_PATH": SIMULATOR, "ASCEND_SIMULATOR_SCHEDULE": schedule, "ASCEND_SIMULATOR_PROFILE": profile}
    return subprocess.run([BERTH, *arguments], env=there, capture_output=True, text=True)


def floats(path):
    """What a .npy of f32 holds."""
    with open(path, "rb") as f:
        data = f.read()
    header = int.from_bytes(data[8:10], "little")
    return array.array("f", data[10 + header:])


class RunOnDevice(unittest.TestCase):
    def expect_the_hosts_results(self, model):
        with tempfile.TemporaryDirectory() as folder:
            results = {}
            for device, schedule in (("host", "eager"), ("ascend:0", "latest")):
                out = os.path.join(folder, device)
                ran = berth("run", model, "--device", device, "--output", out, "--json", schedule=schedule)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertEqual(ran.stderr, "")
                report = json.loads(ran.stdout)
                self.assertEqual(report["leaks"], 0)
                self.assertGreaterEqual(report["arena_bytes"], report["lower_bound"])
                results[device] = (report, floats(report["outputs"][0]["file"]))
            report, values = results["ascend:0"]
            self.assertIn("of the simulator", report["device"])
            self.assertEqual(report["allocations_in_steady_state"], 0)
            self.assertNotIn("malloc_per_tensor_ms", report)
            wanted = results["host"][1]
            self.assertEqual(len(values), len(wanted))
            most = max(abs(w) for w in wanted)
            self.assertLess(max(abs(a - b) for a, b in zip(values, wanted)) / most, 1e-5)

    def test_a_transformer_gives_the_hosts_results(self):
        self.expect_the_hosts_results("builtin:transformer")

    def test_a_network_of_convolutions_gives_the_hosts_results(self):
        model = os.path.join(MODELS, "blazeface_front.onnx")
        if not os.path.exists(model):
            self.skipTest("scripts/fetch_models.sh has not fetched " + model)
        self.expect_the_hosts_results(model)

    def test_what_the_device_lacks_is_refused_by_name_before_anything_runs(self):
        ran = berth("run", "builtin:resnet50", "--device", "ascend:0", "--json", profile="310P")
        self.assertEqual(ran.returncode, 2)
        self.assertEqual(ran.stdout, "")
        self.assertRegex(ran.stderr, r"^berth: builtin:resnet50: node 'MaxPool_\d+' \(MaxPool\): aclnnMaxPool of aclnn refuses it \(161002\): .*\n$")

    def refused(self, what, *arguments, **settings):
        there = {**os.environ, "LD_LIBRARY_PATH": SIMULATOR, **settings}
        for more in ((), ("--json",))["BERTH_SANITIZED" in os.environ:]:
            ran = subprocess.run([BERTH, "run", "builtin:transformer", *arguments, *more], env=there, capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), (arguments, settings, ran.stderr))
            self.assertIn(what, ran.stderr)

    def test_a_device_that_cannot_serve_is_one_line(self):
        on = ("--device", "ascend:0")
        # Memory that another process holds, all of it or too much.
        for held in ("64G", "65535M", "999G"):
            self.refused("(out_of_memory, ", *on, ASCEND_SIMULATOR_HELD_BY_OTHERS=held)
        for memory in ("0", "1M"):
            self.refused("(out_of_memory, ", *on, ASCEND_SIMULATOR_MEMORY=memory)
        self.refused("(limit_exceeded, ", *on, ASCEND_SIMULATOR_MEMORY="4M")
        # The stub that one links with, a driver that does not start, and settings that are none.
        self.refused("libascendcl.so is the stub for linking, no runtime", *on, ASCEND_SIMULATOR_INIT="100039")
        self.refused("AscendCL does not start: E507899", *on, ASCEND_SIMULATOR_INIT="507899")
        for name, wrong, what in (("PROFILE", "none", "no profile 'none'; there are 310, 310P"),
                                  ("PROFILE", "A2:9.9", "no CANN '9.9' in the profile"), ("PROFILE", ":", "no profile ''"),
                                  ("SCHEDULE", "late", "no schedule 'late'"), ("INIT", "x", "wants a code"),
                                  ("HELD_BY_OTHERS", "x", "wants bytes"), ("HELD_BY_OTHERS", "-1", "wants bytes"),
                                  ("MEMORY", "18446744073709551616", "wants bytes"), ("FAIL", "x", "wants FUNCTION:NTH:CODE")):
            self.refused(what, *on, **{"ASCEND_SIMULATOR_" + name: wrong})
        self.refused("libascendcl.so is not installed: neither CANN nor", *on, LD_LIBRARY_PATH="")

    def test_a_device_that_is_none_is_one_line(self):
        for name in ("ascend:9", "ascend:-1", "ascend:", "ascend:x", "ascend:0:x", "ascend:0:huge:small", "ascend:0 media",
                     "ascend:99999999999999999999", "none", ""):
            self.refused("--device", "--device", name)
        self.refused("no dimension called 'n'", "--device", "ascend:0", "--dim", "n=1")
        self.refused("no input called 'x'", "--device", "ascend:0", "--input", "x=none.npy")
        self.refused("cannot create the folder", "--device", "ascend:0", "--output", "/dev/null/x")

    def test_devices_say_whose_operators_compute_there(self):
        listed = {d["name"]: d for d in json.loads(berth("devices", "--json").stdout)["devices"]}
        self.assertEqual(listed["host"]["operators"], "the host's")
        self.assertEqual(listed["ascend:0"]["operators"], "the driver's")
        self.assertIsNone(listed["null"]["operators"])
        self.assertIn("operators  none: `berth run` refuses it", berth("devices").stdout)
        ran = berth("run", "builtin:transformer", "--device", "null")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--device null: the host's kernels cannot reach", ran.stderr)


if __name__ == "__main__":
    unittest.main()
