"""Plans where tensors live in memory."""

from typing import Any

from ._core import InputError, Plan, Problem, __version__, read, rules

__all__ = ["InputError", "Plan", "Problem", "__version__", "read", "rules", "solve_async"]


def _plot(plan: Plan, axes: Any = None) -> Any:
    """Draws the plan on matplotlib's axes (new ones where none are given) and returns them."""
    from . import _show

    return _show.plot(plan, axes)


def _repr_html(plan: Plan) -> str:
    from . import _show

    return _show.repr_html(plan)


Plan.plot = _plot  # type: ignore[method-assign]
Plan._repr_html_ = _repr_html  # type: ignore[method-assign]


async def solve_async(problem: Problem, **options: Any) -> Plan:
    """problem.solve(**options) on a thread of asyncio's; where the task is cancelled, the search ends too."""
    import asyncio
    import functools

    cancelled = False
    progress = options.pop("progress", None)

    def going_on(arena: int, lower_bound: int, work: int) -> Any:
        return False if cancelled else progress and progress(arena, lower_bound, work)

    try:
        return await asyncio.to_thread(functools.partial(problem.solve, progress=going_on, **options))
    finally:
        cancelled = True
