#!/usr/bin/env python3
"""The page of `berth view` in a real browser, where there is one: keys, clicks and taps. usage: chromium_test.py BERTH"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import chromium
from report_test import BERTH, PLAN

AFTER = {**PLAN, "arena_bytes": 124, "buffers": [{"id": "y", "offset": 0, "size": 50, "lower": 2, "upper": 6},
                                                 {"id": "z", "offset": 50, "size": 8, "lower": 2, "upper": 6},
                                                 {"id": "x", "offset": 64, "size": 60, "lower": 0, "upper": 2}]}
ROWS = "[...document.querySelectorAll('#alive-list button')].map(b => b.textContent.split(' at ')[0])"
HEADING = "document.getElementById('alive-when').textContent"
HIDDEN = "document.getElementById('alive').hidden"


class Page(unittest.TestCase):
    def page(self, *more):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        names = [os.path.join(folder.name, name) for name in ("f.json", "old.json", "page.html")]
        for name, content in zip(names, (AFTER, PLAN)):
            with open(name, "w") as f:
                json.dump(content, f)
        subprocess.run([BERTH, "view", names[0], "--beside", names[1], "-o", names[2]], check=True, capture_output=True)
        return names[2]

    def browser(self, **options):
        browser = chromium.Chromium(**options)
        self.addCleanup(browser.close)
        browser.open(self.page())
        return browser

    def middle_of(self, browser, i):
        """Of a buffer's rectangle, in the window."""
        return browser.run(f"(() => {{ const g = layouts().find(g => g.side === side_of({i})), r = canvas.getBoundingClientRect();"
                           f"return [r.x + sx((begin_of[{i}] + end_of[{i}]) / 2, g), r.y + sy(offset_of[{i}] + size_of[{i}] / 2, g)]; }})()")

    def test_keys_and_clicks(self):
        b = self.browser()
        b.run("canvas.focus()")
        b.key("d", 68, "d")
        self.assertEqual(b.run(ROWS), ["+10 B  50 B  y", "+8 B  8 B  z", "±0 B  60 B  x"])
        self.assertIn("3 buffers differ: 1 moved, 1 grown, 1 new", b.run(HEADING))
        # From the list with the keyboard: the first row, which brings y into view.
        b.run("document.querySelector('#alive-list button').focus()")
        b.key("Enter", 13, "\r")
        self.assertEqual(b.run("pinned.hit"), 0)
        b.key("Escape", 27)
        self.assertEqual((b.run(HIDDEN), b.run("document.activeElement.id")), (True, "map"))
        b.run("document.getElementById('whole').click()")
        b.paint()
        b.click(*self.middle_of(b, 3))  # x, before
        self.assertEqual((b.run("pinned.hit"), b.run(HIDDEN)), (3, False))
        # Something is painted where the buffers are, in both pictures.
        b.run("unpin(), paint()")
        for i in range(5):
            at = f"layouts().find(g => g.side === side_of({i}))"
            alpha = b.run(f"pen.getImageData(sx(begin_of[{i}] + 0.5, {at}), sy(offset_of[{i}] + 4, {at}), 1, 1).data[3]")
            self.assertEqual(alpha, 255, i)

    def test_taps_on_a_phone(self):
        b = self.browser(width=390, height=800, touch=True)
        self.assertLessEqual(b.run("document.documentElement.scrollWidth"), 390)
        b.tap(*self.middle_of(b, 0))
        b.paint()
        self.assertEqual((b.run("pinned.hit"), b.run(HIDDEN)), (0, False))
        close = b.run("(r => [r.x + r.width / 2, r.y + r.height / 2])(document.getElementById('close').getBoundingClientRect())")
        b.tap(*close)
        b.paint()
        self.assertTrue(b.run(HIDDEN))

    def test_sums_two_moments_the_strip_and_the_link(self):
        b = self.browser()
        g = "layouts()[1]"
        # Two moments: at 1 of what is now there is x alone, at 3 there are y and z.
        b.run(f"pin(1, -1), pin_second(3), paint()")
        self.assertEqual(b.run(ROWS), ["−60 B  x", "+50 B  y", "+8 B  z"])
        self.assertEqual(b.run(HEADING), "From 1 to 3: −2 B; 2 came, 1 went")
        choose = "(v => { const g = document.getElementById('group'); g.value = v; g.dispatchEvent(new Event('change')); })"
        for by, rows in (("kind", ["−60 B in 1  x", "+50 B in 1  y", "+8 B in 1  z"]), ("size", ["−60 B in 1  60 B each", "+50 B in 1  50 B each", "+8 B in 1  8 B each"])):
            b.run(f"{choose}('{by}')")
            self.assertEqual(b.run(ROWS), rows)
        b.run("pin(3, -1)")
        self.assertEqual(b.run(ROWS)[-1], "8 B in 1  8 B each")
        # A click with Shift is the second moment.
        b.run(f"{choose}(''), pin(1, -1), paint()")
        at = b.run(f"(() => {{ const g = {g}, r = canvas.getBoundingClientRect(); return [r.x + sx(3.5, g), r.y + sy(20, g)]; }})()")
        b.click(*at, modifiers=8)
        self.assertEqual(b.run("[pinned.at, pinned.second]"), [1, 3])
        # A press on the strip brings that time into the middle of what is shown.
        b.run("zoom(0.4, 0, 0, false), paint()")
        before = b.run("[view.left, view.right]")
        b.click(*b.run(f"(() => {{ const g = {g}, r = canvas.getBoundingClientRect(); return [r.x + g.x1 - 1, r.y + g.c1 + 12]; }})()"))
        after = b.run("[view.left, view.right]")
        self.assertGreater(after[0], before[0])
        self.assertEqual(after[1], b.run("full.right"))
        self.assertEqual(b.run("[pinned.at, pinned.second]"), [1, 3])  # it pins nothing
        # The page's address leads there again.
        b.run("new Promise(done => setTimeout(done, 400))")
        link, state = b.run("location.hash"), b.run("[view.left, view.right, view.bottom, view.top, pinned.at, pinned.second]")
        b.run("view = {...full}, unpin(), history.replaceState(null, '', '#'), 0")
        b.run(f"location.hash = '{link}', new Promise(done => setTimeout(done, 100))")
        for was, now in zip(state, b.run("[view.left, view.right, view.bottom, view.top, pinned.at, pinned.second]")):
            self.assertAlmostEqual(was, now, places=5)
        # An address of another page changes nothing that is not there.
        b.run("location.hash = '#view=9,2,x,1&at=99999,a&memory=7&axis=us', new Promise(done => setTimeout(done, 100))")
        self.assertTrue(b.run("Object.keys(full).every(k => view[k] === full[k]) && pinned === null"))


if __name__ == "__main__":
    if not chromium.PROGRAM:
        print("no Chromium here: scripts/setup.sh browser installs it")
        sys.exit(77)
    sys.argv = sys.argv[:1]
    unittest.main()
