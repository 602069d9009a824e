#!/usr/bin/env python3
"""Records programs without Berth by libberth_preload.so. usage: preload_test.py LIBRARY PROGRAM BERTH [FOLDER_OF_THE_SIMULATOR]"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SIMULATOR = sys.argv.pop(4) if len(sys.argv) > 4 else None
BERTH = sys.argv.pop(3)
PROGRAM = sys.argv.pop(2)
LIBRARY = sys.argv.pop(1)


class Preload(unittest.TestCase):
    def record(self, folder, program=PROGRAM, **variables):
        environment = {**os.environ, "LD_PRELOAD": LIBRARY, "BERTH_RECORD": os.path.join(folder, "run.json"), **variables}
        if SIMULATOR:
            environment["LD_LIBRARY_PATH"] = SIMULATOR
        return subprocess.run([program] if isinstance(program, str) else program, env=environment, capture_output=True, text=True,
                              timeout=60)

    def alive(self, folder):
        """{size: place} of the blocks that were never freed."""
        with open(os.path.join(folder, "run.json")) as f:
            text = f.read()
        shown = subprocess.run([BERTH, "report", os.path.join(folder, "run.json"), "--json"], capture_output=True, text=True)
        self.assertEqual(shown.stderr, "")
        return json.loads(shown.stdout), text

    def test_blocks_of_malloc(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.record(folder, BERTH_RECORD_OF="malloc")
            self.assertEqual(done.returncode, 0, done.stderr)
            _, text = self.alive(folder)
            for size in (123456, 54321, 1000, 770):
                self.assertIn(f"{size}", text)
            self.assertIn(os.path.basename(PROGRAM) + "+0x", text)
            self.assertNotIn("4097", text)

    @unittest.skipUnless(SIMULATOR, "without the simulator")
    def test_blocks_of_a_device(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.record(folder, BERTH_RECORD_OF="device")
            _, text = self.alive(folder)
            self.assertIn("4097", text)
            self.assertIn("777", text)
            self.assertNotIn("123456", text)

    @unittest.skipUnless(SIMULATOR, "without the simulator")
    def test_a_double_free_of_device_memory_is_in_the_debuggers_report(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "memory.json")
            self.record(folder, BERTH_RECORD_OF="device", TWICE="1", BERTH_DEBUG=f"warn,report={path}")
            with open(path) as f:
                mistakes = json.load(f)["mistakes"]
            self.assertEqual([m["kind"] for m in mistakes], ["double free"])
            self.assertIn(os.path.basename(PROGRAM) + "+0x", mistakes[0]["file"])

    @unittest.skipUnless(SIMULATOR, "without the simulator")
    def test_a_library_that_was_loaded_for_another_alone_has_its_functions(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ("import ctypes; acl = ctypes.CDLL('libascendcl.so'); acl.aclInit(None); acl.aclrtSetDevice(0)\n"
                    "own, block = ctypes.CDLL(None), ctypes.c_void_p()\n"
                    "print(own.aclrtMallocHost(ctypes.byref(block), ctypes.c_size_t(777)), own.aclrtFreeHost(block))")
            done = self.record(folder, [sys.executable, "-c", code], BERTH_RECORD_OF="device")
            self.assertEqual((done.returncode, done.stdout), (0, "0 0\n"), done.stderr)
            self.assertIn("777", self.alive(folder)[1])

    @unittest.skipUnless(SIMULATOR, "without the simulator")
    def test_a_free_of_a_block_that_was_not_seen_is_no_mistake(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.record(folder, BERTH_RECORD_OF="device", OTHERS="1", BERTH_DEBUG="guards")
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_other_programs_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.record(folder, [sys.executable, "-c", "import threading, json\n"
                                        "t = [threading.Thread(target=lambda: json.dumps(list(range(10000)))) for _ in range(8)]\n"
                                        "[x.start() for x in t]; [x.join() for x in t]; print('ok')"])
            self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
            self.assertIn("python", self.alive(folder)[1])

    def test_threads_open_libraries_and_fork(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(5):
                done = self.record(folder, BERTH_RECORD_OF="malloc", CROWD="1")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_changed_environment_and_folder_change_no_path(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.record(folder, [sys.executable, "-c", f"import os; os.chdir({folder!r}); os.unsetenv('BERTH_RECORD')"])
            self.assertEqual((done.returncode, os.listdir(folder)), (0, ["run.json"]), done.stderr)
            os.mkdir(os.path.join(folder, "sub"))
            relative = os.path.relpath(os.path.join(folder, "far.json"))
            done = self.record(folder, [sys.executable, "-c", f"import os; os.chdir({folder!r} + '/sub')"], BERTH_RECORD=relative)
            self.assertEqual(sorted(os.listdir(folder)), ["far.json", "run.json", "sub"], done.stderr)

    def test_a_program_started_by_a_recorded_one_has_a_file_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ("import os, subprocess, sys\n"
                    "child = subprocess.Popen([sys.executable, '-c', 'pass'])\n"
                    "child.wait(); print(child.pid)")
            done = self.record(folder, [sys.executable, "-c", code])
            self.assertEqual(sorted(os.listdir(folder)), [f"run.{done.stdout.strip()}.json", "run.json"], done.stderr)
            self.record(folder, ["/bin/sh", "-c", f"exec '{sys.executable}' -c pass"])
            self.assertEqual(len(os.listdir(folder)), 2)

    def test_without_a_file_nothing_is_recorded(self):
        done = subprocess.run([PROGRAM], env={**{k: v for k, v in os.environ.items() if k != "BERTH_RECORD"}, "LD_PRELOAD": LIBRARY,
                                              **({"LD_LIBRARY_PATH": SIMULATOR} if SIMULATOR else {})}, capture_output=True, text=True)
        self.assertNotIn("berth:", done.stderr)

    def test_bad_words_are_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.record(folder, ["/bin/true"], BERTH_RECORD_OF="everything")
            self.assertEqual((done.returncode, done.stderr), (0, "berth: BERTH_RECORD_OF: 'everything' names neither malloc nor device\n"))
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
