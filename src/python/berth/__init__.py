"""Plans where tensors live in memory."""

from typing import TYPE_CHECKING, Any

from ._core import (
    Arena,
    Graph,
    InputError,
    Plan,
    Pool,
    Problem,
    Stream,
    Tensor,
    __version__,
    fit,
    from_dlpack,
    read,
    rules,
)

if TYPE_CHECKING:
    from .cache import PlanCache as PlanCache
    from .many import Journal as Journal
    from .many import ManyError as ManyError
    from .many import plan_many as plan_many
    from .many import plan_stream as plan_stream
    from .many import plan_stream_async as plan_stream_async
    from .many import shard_of as shard_of

__all__ = [
    "Arena",
    "Graph",
    "InputError",
    "Journal",
    "ManyError",
    "Plan",
    "PlanCache",
    "Pool",
    "Problem",
    "Stream",
    "Tensor",
    "__version__",
    "fit",
    "from_dlpack",
    "plan_many",
    "plan_stream",
    "plan_stream_async",
    "read",
    "rules",
    "shard_of",
    "solve_async",
]

# Imported when they are asked for: what they stand on takes longer to import than the rest.
_later = {name: "many" for name in ("Journal", "ManyError", "plan_many", "plan_stream", "plan_stream_async", "shard_of")}
_later["PlanCache"] = "cache"


def __getattr__(name: str) -> Any:
    if name not in _later:
        raise AttributeError(f"module 'berth' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("." + _later[name], __name__), name)


def _plot(plan: Plan, axes: Any = None) -> Any:
    """Draws the plan on matplotlib's axes (new ones where none are given) and returns them."""
    from . import _show

    return _show.plot(plan, axes)


def _repr_html(plan: Plan) -> str:
    from . import _show

    return _show.repr_html(plan)


setattr(Plan, "plot", _plot)
setattr(Plan, "_repr_html_", _repr_html)


async def solve_async(problem: Problem, **options: Any) -> Plan:
    """problem.solve(**options) on a thread of asyncio's; where the task is cancelled, the search ends too."""
    import asyncio
    import functools

    cancelled = False
    progress = options.pop("progress", None)

    def going_on(arena: int, lower_bound: int, work: int) -> Any:
        if cancelled:
            return False
        return None if progress is None else progress(arena, lower_bound, work)

    try:
        return await asyncio.to_thread(functools.partial(problem.solve, progress=going_on, **options))
    finally:
        cancelled = True
