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

    def test_devices_say_whose_operators_compute_there(self):
        listed = {d["name"]: d for d in json.loads(berth("devices", "--json").stdout)["devices"]}
        self.assertEqual(listed["host"]["operators"], "the host's")
        self.assertEqual(listed["ascend:0"]["operators"], "the driver's")
        self.assertIsNone(listed["null"]["operators"])
        ran = berth("run", "builtin:transformer", "--device", "null")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--device null: the host's kernels cannot reach", ran.stderr)


if __name__ == "__main__":
    unittest.main()
