"""Greedy assignments of buffers to memories, beside which plans are measured."""

ORDERS = {"size": lambda b: -b["size"], "density": lambda b: -b["touched"] / max(b["size"], 1), "birth": lambda b: b["lower"]}


def greedy_costs(problem):
    """Access times of a berth-problem/1 with uses, by order: each buffer into the cheapest memory that still holds the
    bytes alive with it, in the order of size, of bytes touched for each byte, and of birth."""
    buffers = [{**b, "touched": sum(u["bytes"] for u in b["uses"])} for b in problem["buffers"]]
    pools = sorted(problem["pools"], key=lambda p: p["cost"])
    costs = {}
    for name, order in ORDERS.items():
        alive, costs[name] = [{} for _ in pools], 0
        for b in sorted(buffers, key=order):
            for pool, at in zip(pools, alive):
                if pool["id"] not in b.get("pools", [pool["id"]]):
                    continue
                if all(at.get(t, 0) + b["size"] <= pool["capacity"] for t in range(b["lower"], b["upper"])):
                    for t in range(b["lower"], b["upper"]):
                        at[t] = at.get(t, 0) + b["size"]
                    costs[name] += b["touched"] * pool["cost"]
                    break
            else:
                costs[name] = float("inf")
    return costs
