"""Berth as the memory planning algorithm of ExecuTorch's exporter:

    ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(memory_planning_algo=berth.executorch.plan))

The call is that of exir/memory_planning.py as of 2026; ExecuTorch itself is not imported. The exporter was never run
here: the tests have stand-ins for its specs.
"""

from __future__ import annotations

import copy
from typing import Any, Dict, Iterable, List

from ._core import InputError, Problem


def plan(
    alignment: int,
    specs: Iterable[Any],
    graph_module: Any,
    graph_signature: Any = None,
    extra_padding: int = 0,
    *,
    effort: str = "normal",
) -> List[int]:
    """Gives every TensorSpec its mem_id (1 where it has none), mem_offset and mem_obj_id, and returns the bytes of each
    memory by mem_id, behind what graph_module.input_mem_buffer_sizes says is taken there. Another effort by
    functools.partial.

    The same specs in any order have the same offsets, but for specs that nothing tells apart. Nothing is changed where
    an exception is raised."""
    taken = list(getattr(graph_module, "input_mem_buffer_sizes", None) or [])
    memories: Dict[int, List[Any]] = {}
    for spec in {id(spec): spec for spec in specs}.values():
        first, last = spec.lifetime
        if first is None or last is None:
            raise InputError(f"{spec!r} has no lifetime")
        memories.setdefault(1 if spec.mem_id is None else spec.mem_id, []).append(spec)

    sizes = [0] * max(2, len(taken), *(memory + 1 for memory in memories))
    sizes[: len(taken)] = taken
    places = []
    for memory, held in sorted(memories.items()):
        sized = [(copy.copy(spec).realign(alignment), spec) for spec in held]
        sized.sort(key=lambda each: (each[1].lifetime[0], each[1].lifetime[1], each[0]))
        problem = Problem(alignment=alignment)
        for size, spec in sized:
            problem.add(size, (spec.lifetime[0], spec.lifetime[1] + 1))  # both ends are in it
        answer = problem.solve(effort=effort)
        start = -(-sizes[memory] // alignment) * alignment
        places += [(spec, memory, start + answer[i]) for i, (_, spec) in enumerate(sized)]
        sizes[memory] = start + answer.arena + extra_padding
    for spec, memory, offset in places:
        spec.realign(alignment)
        # Specs whose bytes overlap are to be of one object: a memory is one.
        spec.mem_id, spec.mem_offset, spec.mem_obj_id = memory, offset, 0
    return sizes
