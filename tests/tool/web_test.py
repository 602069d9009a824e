#!/usr/bin/env python3
"""build/web/berth.html in a real browser: files are chosen, and the report and the picture come. usage: web_test.py PAGE"""
import gzip
import json
import os
import sys
import tempfile
import time
import unittest

import chromium
from report_test import BERTH, PLAN

PAGE = os.path.abspath(BERTH)
LOG = "ev,id,size,stream,thread,t_us\na,0,4096,0,0,1\na,1,8192,0,0,2\nf,0,0,0,0,3\nf,1,0,0,0,4\n"


class Web(unittest.TestCase):
    def read(self, name, content):
        """The report, the state, and whether there is a picture."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "wb") as f:
                f.write(content)
            b = chromium.Chromium()
            self.addCleanup(b.close)
            b.open(PAGE)
            document = b.call("DOM.getDocument")["root"]["nodeId"]
            chosen = b.call("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
            b.call("DOM.setFileInputFiles", files=[path], nodeId=chosen)
            for _ in range(300):
                time.sleep(0.1)
                if not b.run("document.getElementById('state').textContent.includes('Reading')"):
                    break
            return b.run("[document.getElementById('report').textContent, document.getElementById('state').textContent, "
                         "!document.getElementById('picture').hidden]")

    def test_a_log(self):
        report, state, picture = self.read("run of today.csv", LOG.encode())
        self.assertTrue(report.startswith("run of today.csv: a trace"), report)
        self.assertIn("12 KiB", report)
        self.assertTrue(state.startswith("run of today.csv. "), state)
        self.assertTrue(picture)

    def test_a_packed_plan(self):
        report, _, picture = self.read("-plan.json.gz", gzip.compress(json.dumps(PLAN).encode()))
        self.assertTrue(report.startswith("-plan.json.gz: a plan"), report)
        self.assertTrue(picture)

    def test_what_is_no_such_file(self):
        report, state, picture = self.read("x.csv", b"what,is,this\n1,2,3\n")
        self.assertTrue(report.startswith("berth: x.csv:1: "), report)
        self.assertFalse(picture)


if __name__ == "__main__":
    if not chromium.PROGRAM:
        print("no Chromium here: scripts/setup.sh browser installs it")
        sys.exit(77)
    sys.argv = sys.argv[:1]
    unittest.main()
