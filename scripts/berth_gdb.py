"""What gdb shows of Berth's values: results, blocks, problems, plans and graphs in a line each.

    (gdb) source PREFIX/share/berth/berth_gdb.py      # or in ~/.gdbinit
    (gdb) print plan
    $1 = berth::plan::plan optimal, arena 4096, lower bound 4096, 12 offsets

Fields are still there with print/r. What vectors and results hold is shown by libstdc++'s own printers.
"""

import gdb
import gdb.printing


def count(vector):
    return int(vector["_M_impl"]["_M_finish"] - vector["_M_impl"]["_M_start"])


def text(string):
    return string["_M_dataplus"]["_M_p"].string(length=int(string["_M_string_length"]))


def only_child(value):
    """What a std::variant or a std::optional holds, as (name, value); None where nobody can say."""
    shown = gdb.default_visualizer(value)
    return next(iter(shown.children()), None) if shown is not None and hasattr(shown, "children") else None


class Line:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"{self.value.type.strip_typedefs().unqualified()} {self.say(self.value)}"


class Error(Line):
    def say(self, e):
        return f"{str(e['code']).rsplit('::', 1)[-1]}: {e['what'].string()} ({int(e['number'])})"


class Result:
    def __init__(self, value):
        of = value.type.strip_typedefs().fields()[0].name  # state_, or of result<void> error_
        self.held = only_child(value[of])
        self.good = int(value[of]["_M_index"]) == 0 if of == "state_" else self.held is None

    def to_string(self):
        return "berth::result, a value" if self.good else "berth::result, an error"

    def children(self):
        return iter([] if self.held is None else [("value" if self.good else "error", self.held[1])])


class Block(Line):
    def say(self, b):
        return f"of {int(b['size_'])} bytes at {hex(int(b['data_']))}" if int(b["data_"]) else "that is empty"


class Id(Line):
    def say(self, v):
        return "none" if int(v["index"]) == 2**32 - 1 else f"#{int(v['index'])}"


class Interval(Line):
    def say(self, i):
        return f"[{int(i['lower'])}, {int(i['upper'])})"


class Buffer(Line):
    def say(self, b):
        lives = b["lifetimes"]
        spans = [lives["_M_impl"]["_M_start"][i] for i in range(count(lives))] or [b["live"]]
        return f"'{text(b['name'])}', {int(b['size'])} bytes, " + " ".join(Interval(i).say(i) for i in spans)


class Problem(Line):
    def say(self, p):
        said = f"of {count(p['buffers'])} buffers, alignment {int(p['alignment'])}"
        return said + (f", {count(p['memories'])} memories" if count(p["memories"]) else "")


class Plan(Line):
    def say(self, p):
        status = str(p["status"]).rsplit("::", 1)[-1]
        if not count(p["offsets"]):
            return f"{status}, lower bound {int(p['lower_bound_bytes'])}, no offsets"
        return (f"{status}, arena {int(p['arena_bytes'])}, lower bound {int(p['lower_bound_bytes'])}, "
                f"{count(p['offsets'])} offsets")


class Graph(Line):
    def say(self, g):
        return f"of {count(g['values_'])} values and {count(g['nodes_'])} nodes"


class GraphPlan(Line):
    def say(self, p):
        return f"arena {int(p['arena_bytes'])}, lower bound {int(p['lower_bound_bytes'])}, states {int(p['state_bytes'])}"


def printers():
    made = gdb.printing.RegexpCollectionPrettyPrinter("berth")
    for name, printer in {
        "result<.*>": Result, "error": Error, "block": Block, "value_id": Id, "node_id": Id, "plan::interval": Interval,
        "plan::buffer": Buffer, "plan::problem": Problem, "plan::plan": Plan, "graph": Graph, "graph_plan": GraphPlan,
    }.items():
        made.add_printer(name, f"^berth::{name}$", printer)
    return made


gdb.printing.register_pretty_printer(None, printers(), replace=True)
