#!/usr/bin/env python3
"""`berth manual`: every verb and option is on the page and in the completions, and shells take them. usage: manual_test.py BERTH"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)


def run(*args):
    return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)


class Manual(unittest.TestCase):
    def test_json_lists_what_the_help_lists(self):
        verbs = {v["name"]: v["options"] for v in json.loads(run("manual", "--json").stdout)["verbs"]}
        helped = run("--help").stdout
        for name, options in verbs.items():
            self.assertIn("\n  " + name + " ", helped)
            text = run(name, "--help").stdout
            for option in options:
                for spelled in option["names"]:
                    self.assertIn(spelled, text, name)
            named = {n for o in options for n in o["names"]}
            self.assertLessEqual({"--json", "--help"}, named, name)
        policy = next(o for o in verbs["replay"] if "--policy" in o["names"])
        self.assertEqual(policy["values"][0], "berth")

    def test_the_page_and_the_completions_have_all_options(self):
        verbs = json.loads(run("manual", "--json").stdout)["verbs"]
        for form in ("man", "bash", "zsh", "fish"):
            got = run("manual", "--form", form)
            self.assertEqual((got.returncode, got.stderr), (0, ""))
            text = got.stdout.replace("\\-", "-")
            for verb in verbs:
                for option in verb["options"]:
                    for spelled in option["names"]:
                        self.assertIn(spelled if form != "fish" else spelled.lstrip("-"), text, (form, verb["name"]))

    def test_what_holds_where_nothing_is_said_is_said(self):
        verbs = {v["name"]: v["options"] for v in json.loads(run("manual", "--json").stdout)["verbs"]}
        page = run("manual").stdout.replace("\\-", "-")
        for verb, option, value in (("plan", "--effort", "normal"), ("plan", "--threads", "1"), ("fit", "--effort", "normal"),
                                    ("replay", "--policy", "berth"), ("media", "--chip", "310P"), ("media", "--shown", "2"),
                                    ("run", "--device", "host"), ("op", "--dtype", "f32")):
            line = next(x for x in run(verb, "--help").stdout.splitlines() if x.startswith("  " + option + " "))
            self.assertRegex(line, "=" + value + "( |$)")
            self.assertEqual(next(o for o in verbs[verb] if option in o["names"])["default"], value)
            of_verb = page.split(f'"berth {verb}"')[1].split(".SS")[0]
            entry = of_verb.split("\\fB" + option + "\\fR")[1].split(".TP")[0]
            self.assertRegex(entry.strip(), r"[(;] ?" + value + r" where nothing is said\)$")

    def test_bash_completes(self):
        bash = shutil.which("bash")
        if bash is None:
            self.skipTest("no bash")
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "berth.bash")
            self.assertEqual(run("manual", "--form", "bash", "--out", script).returncode, 0)

            def complete(*words):
                line = " ".join(f"'{w}'" for w in words)
                ask = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _berth; printf '%s\\n' \"${{COMPREPLY[@]}}\""
                return subprocess.run([bash, "-c", ask], capture_output=True, text=True, check=True).stdout.split()

            self.assertEqual(complete("berth", "ver"), ["verify"])
            self.assertEqual(complete("berth", "plan", "--eff"), ["--effort"])
            self.assertEqual(complete("berth", "plan", "--effort", "b"), ["best"])
            self.assertIn("ascend_310p", complete("berth", "plan", "x.csv", "--rules", "asc"))

    def test_man_and_zsh_take_it(self):
        for tool, form, command in (("man", "man", ["man", "--warnings", "-l", "-"]), ("zsh", "zsh", ["zsh", "-n", "/dev/stdin"]),
                                    ("fish", "fish", ["fish", "-n", "/dev/stdin"])):
            if shutil.which(tool) is None:
                continue
            got = subprocess.run(command, input=run("manual", "--form", form).stdout, capture_output=True, text=True,
                                 env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8"})
            self.assertEqual((got.returncode, got.stderr), (0, ""), tool)

    def test_wrong_calls(self):
        got = run("manual", "--form", "tcsh")
        self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1))
        self.assertIn("{man,bash,zsh,fish}", got.stderr)


if __name__ == "__main__":
    unittest.main()
