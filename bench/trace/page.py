#!/usr/bin/env python3
"""How long headless Chromium takes to open the page of a log, in seconds: from the call to go there until it is painted;
and to paint a step of the wheel, in milliseconds. Least and median of some rounds. usage: page.py BERTH [EVENTS [ROUNDS]]"""
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "tool"))
import chromium  # noqa: E402


def write_log(path, events):
    """About 1000 blocks alive, of 4 to 800 KiB, freed in any order."""
    chance, alive, n = random.Random(3), [], 0
    with open(path, "w") as f:
        f.write("ev,id,size,stream,thread,t_us\n")
        for t in range(events):
            if events - t > len(alive) and (len(alive) < 1000 or chance.random() < 0.5):
                f.write(f"a,{n},{chance.randrange(1, 200) * 4096},0,0,{t}\n")
                alive.append(n)
                n += 1
            else:
                k = chance.randrange(len(alive))
                alive[k], alive[-1] = alive[-1], alive[k]
                f.write(f"f,{alive.pop()},,0,0,{t}\n")


def main(berth, events=1_000_000, rounds=9):
    with tempfile.TemporaryDirectory() as folder:
        log, page = os.path.join(folder, "log.csv"), os.path.join(folder, "page.html")
        write_log(log, int(events))
        subprocess.run([berth, "view", log, "-o", page], check=True, stdout=subprocess.DEVNULL)
        took, script, steps = [], [], []
        for _ in range(int(rounds)):
            browser = chromium.Chromium()
            browser.open(page)
            took.append(browser.run("performance.now()") / 1000)
            script.append(browser.run("(([n]) => (n.domContentLoadedEventStart - n.responseEnd) / 1000)(performance.getEntriesByType('navigation'))"))
            shown = browser.run("count")
            steps += browser.run("(() => { const took = []; for (let k = 0; k < 10; ++k) { zoom(k % 2 ? 1.2 : 1 / 1.2, (view.left + view.right) / 2, 0, false);"
                                 "const from = performance.now(); paint(); took.push(performance.now() - from); } return took; })()")
            browser.close()
        print(f"{events} events, page of {os.path.getsize(page) / 1e6:.0f} MB, {shown} rectangles, {rounds} rounds, least (median): "
              f"painted {min(took):.2f} ({statistics.median(took):.2f}) s, script {min(script):.2f} ({statistics.median(script):.2f}) s, "
              f"a step of the wheel {min(steps):.0f} ({statistics.median(steps):.0f}, worst {max(steps):.0f}) ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
