"""What notebooks show of a plan, and its picture by matplotlib."""

from __future__ import annotations

import html
from typing import Any, Iterator, NamedTuple

from ._core import Plan

_DRAWN = 2000  # rectangles of the small picture; to_html() and `berth view` draw all


class Box(NamedTuple):
    name: str
    lower: int
    upper: int
    offset: int
    size: int


def boxes(plan: Plan) -> Iterator[Box]:
    """By buffer: when and where it lies."""
    for row in plan._boxes():
        yield Box(*row)


def svg(plan: Plan, width: int = 480, height: int = 200) -> str:
    every = list(boxes(plan))
    if not every or plan.arena == 0:
        return ""
    first = min(b.lower for b in every)
    span = max(1, max(b.upper for b in every) - first)
    drawn = sorted(every, key=lambda b: b.size * (b.upper - b.lower), reverse=True)[:_DRAWN]
    rows = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" style="background:#f4f4f4">']
    for b in drawn:
        x, w = (b.lower - first) / span * width, (b.upper - b.lower) / span * width
        y, h = (1 - (b.offset + b.size) / plan.arena) * height, b.size / plan.arena * height
        rows.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="#6a9fb5" stroke="#fff" '
            f'stroke-width="0.5"><title>{html.escape(b.name)}: {b.size} B at {b.offset}</title></rect>'
        )
    return "".join(rows) + "</svg>"


def repr_html(plan: Plan) -> str:
    facts = {
        "status": plan.status,
        "arena": f"{plan.arena:,} B",
        "lower bound": f"{plan.lower_bound:,} B",
        "buffers": f"{len(plan):,}",
        "solver": plan.solver,
    }
    if plan.reason:
        facts = {"status": plan.status, "why": plan.reason, "lower bound": facts["lower bound"]}
    cells = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in facts.items())
    return f"<table>{cells}</table>" + svg(plan)


def plot(plan: Plan, axes: Any = None) -> Any:
    """Draws the plan on matplotlib's axes (new ones where none are given) and returns them."""
    from matplotlib import pyplot
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    if axes is None:
        axes = pyplot.subplots()[1]
    patches = [Rectangle((b.lower, b.offset), b.upper - b.lower, b.size) for b in boxes(plan)]
    axes.add_collection(PatchCollection(patches, facecolor="#6a9fb5", edgecolor="white", linewidth=0.5))
    axes.axhline(plan.lower_bound, color="black", linestyle="--", label="lower bound")
    axes.autoscale_view()
    axes.set(xlabel="tick", ylabel="bytes", title=f"{plan.status}, arena {plan.arena:,} B")
    return axes
