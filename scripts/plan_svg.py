#!/usr/bin/env python3
"""A plan as a small picture: time to the right, addresses upwards, one rectangle a buffer. `berth view` makes the page
one can zoom in; this makes what stands in the README.
usage: berth plan MODEL --json | scripts/plan_svg.py TITLE >docs/plan.svg"""
import html
import json
import sys

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 860, 300, 8, 26, 22
COLOURS = ["#4878a8", "#e49444", "#85b6b2", "#d1615d", "#6a9f58", "#a87c9f", "#e7ca60", "#967662"]


def main(title: str) -> None:
    plan = json.load(sys.stdin)
    buffers = plan["buffers"]
    end = max(b["upper"] for b in buffers)
    arena = plan["arena_bytes"]
    x = (WIDTH - 2 * LEFT) / end
    y = (HEIGHT - TOP - BOTTOM) / arena
    floor = HEIGHT - BOTTOM
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">')
    print(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>')
    print(f'<text x="{LEFT}" y="16" fill="#333">{html.escape(title)}</text>')
    for i, b in enumerate(sorted(buffers, key=lambda b: (b["lower"], b["offset"]))):
        print(
            f'<rect x="{LEFT + b["lower"] * x:.1f}" y="{floor - (b["offset"] + b["size"]) * y:.1f}" '
            f'width="{(b["upper"] - b["lower"]) * x:.1f}" height="{b["size"] * y:.1f}" '
            f'fill="{COLOURS[i % len(COLOURS)]}" stroke="#fff" stroke-width=".4"/>'
        )
    print(f'<path d="M{LEFT} {TOP}H{WIDTH - LEFT}" stroke="#333" stroke-dasharray="4 3"/>')
    print(f'<path d="M{LEFT} {floor}H{WIDTH - LEFT}" stroke="#333"/>')
    print(f'<text x="{LEFT}" y="{HEIGHT - 6}" fill="#333">time: the model\'s {end} steps, from left to right</text>')
    print("</svg>")


if __name__ == "__main__":
    main(sys.argv[1])
