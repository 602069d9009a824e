"""What gdb shows of Berth's values: results, blocks, problems, plans and graphs in a line each.

    (gdb) source PREFIX/share/berth/berth_gdb.py      # or in ~/.gdbinit
    (gdb) print plan
    $1 = berth::plan::plan optimal, arena 4096, lower bound 4096, 12 offsets
    (gdb) berth who $_siginfo._sifields._sigfault.si_addr
    0x7f3a1004: byte 4 of the block of 100 bytes at 0x7f3a1000, asked for at a.cpp:12 by thread 0 for stream 3, 51.200 us after ...

Fields are still there with print/r. What vectors and results hold is shown by libstdc++'s own printers.
"""

import struct

import gdb
import gdb.printing


def count(vector):
    return int(vector["_M_impl"]["_M_finish"] - vector["_M_impl"]["_M_start"])


def printable(raw):
    """Names may hold anything, and a terminal obeys what it is shown."""
    return "".join(c if c.isprintable() else "?" for c in raw.decode("utf-8", "replace"))


def text(string):
    length = int(string["_M_string_length"])
    raw = gdb.selected_inferior().read_memory(string["_M_dataplus"]["_M_p"], length) if length else memoryview(b"")
    return printable(raw.tobytes())


def text_at(address):
    """Up to its end, 4096 bytes or what can be read, in pieces that lie in one page each."""
    raw = b""
    while len(raw) < 4096 and b"\0" not in raw:
        at = address + len(raw)
        try:
            raw += gdb.selected_inferior().read_memory(at, 256 - at % 256).tobytes()
        except gdb.error:
            if not raw:
                raise
            break
    return printable(raw[:4096].split(b"\0")[0])


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
        return f"{str(e['code']).rsplit('::', 1)[-1]}: {text_at(int(e['what']))} ({int(e['number'])})"


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


class Memory:
    """Of the process or the core. Nothing is asked of the program's types, as libraries are without them mostly."""

    def __init__(self):
        self.memory = gdb.selected_inferior()
        self.word = gdb.lookup_type("long").sizeof

    def address_of(self, symbol):
        try:
            return int(gdb.parse_and_eval(f"(char*)&{symbol}"))
        except gdb.error as e:
            if not str(e).startswith("No symbol"):
                raise
            return None

    def read(self, form, at):
        return struct.unpack(form, self.memory.read_memory(at, struct.calcsize(form)).tobytes())

    def words(self, at, n):
        return self.read("<" + ("Q" if self.word == 8 else "I") * n, at)

    def vector(self, at):
        begin, end = self.words(at, 2)
        return list(self.words(begin, (end - begin) // self.word)) if end > begin else []

    def place(self, file, line):
        if not line:
            return "an unknown place"
        try:
            return f"{text_at(file)}:{line}"
        except gdb.error:
            return f"line {line} of a file whose name is not in the core"


class Known:
    """A block: `since` and `freed` are texts, `freed` None while it is alive; `order` is larger for what was freed later; `guarded`
    where a guard knows it, whoever tells."""

    def __init__(self, address, size, file, line, thread, stream, since, freed=None, order=0):
        self.address, self.size, self.file, self.line, self.since = address, size, file, line, since
        self.thread, self.stream, self.freed, self.order = thread, stream, freed, order
        self.guarded = False

    def holds(self, address):
        return self.address <= address < self.address + max(self.size, 1)

    def is_like(self, other):
        return (self.size, self.freed is None) == (other.size, other.freed is None)

    def said(self, memory):
        return (f"block of {self.size} bytes at {self.address:#x}, asked for at {memory.place(self.file, self.line)} by thread "
                f"{self.thread} for stream {self.stream}, {self.since}")


class Recorder(Memory):
    """The events of the recorder that was started last (src/trace/recorder.cpp). `version` is None where the program has none,
    0 where none was started or it is gone."""

    def __init__(self):
        super().__init__()
        self.version, self.dropped, self.listening, self.by_thread = None, 0, True, {}
        at = self.address_of("berth_recorder_lanes")  # C headers have a type berth_recorder
        if at is None:
            return
        self.version, self.stride = self.read("<II", at)
        if self.version == 0:
            return
        if self.version != 3:
            raise gdb.GdbError("berth who: the program's recorder is another one than this script knows")
        _, lanes, residue, full, dropped, listening = self.words(at + 8, 6)
        (self.dropped,), (self.listening,) = self.read("<Q", dropped), self.read("<?", listening)
        closed = self.vector(residue) + self.vector(full)
        for chunk in closed:
            count, thread = self.read("<II", chunk)
            self.add(thread, chunk, count)
        for lane in self.vector(lanes)[::2]:  # shared pointers: two words each
            # owner, at, limit, open, number
            _, written, _, chunk = self.words(lane, 4)
            (thread,) = self.read("<I", lane + 4 * self.word)
            if chunk and chunk not in closed:
                self.add(thread, chunk, (written - chunk - 8) // self.stride)

    def add(self, thread, chunk, count):
        form = "<QQQII" if self.word == 8 else f"<QQIII{self.stride - 28}x"
        if 0 < count <= (2**16 - 8) // self.stride:  # else the program was stopped between two chunks
            raw = self.memory.read_memory(chunk + 8, self.stride * count).tobytes()
            self.by_thread.setdefault(thread, []).extend(struct.iter_unpack(form, raw))

    def events(self):
        """(from, until, thread, is an allocation, address, size, file, line, stream), in the order of time: between threads as
        near as the stamps are."""
        made = []
        for thread, records in self.by_thread.items():
            since, waiting = 0, []
            for address, size_and_kind, file, line, stream in records:
                if size_and_kind & 3 == 0:  # a stamp
                    made += [(since, address, *e) for e in waiting]
                    since, waiting = address, []
                elif size_and_kind & 3 != 3:  # else it is gone
                    waiting.append((thread, size_and_kind & 3 == 1, address, size_and_kind >> 2, file, line, stream))
            made += [(since, float("inf"), *e) for e in waiting]
        return sorted(made, key=lambda e: e[0])

    def blocks(self):
        """By address the last block there."""
        all, at_one = {}, {}
        for e in self.events():
            at_one.setdefault(e[4], []).append(e)
        for address, events in at_one.items():
            gets, frees = [e for e in events if e[3]], [e for e in events if not e[3]]
            if not gets:
                continue
            # Allocations and frees alternate at an address. The order matters if the stamps of two threads leave it
            # open. A first free may be of a block allocated before the recording.
            first, get = (frees or [None])[0], gets[0]
            is_older = first and (events[0] is first if first[2] == get[2] else first[1] <= get[0])
            is_free = len(frees) - (1 if is_older else 0) >= len(gets)
            all[address] = self.known(gets[-1], frees[-1] if is_free else None)
        return all

    def known(self, get, free):
        since, _, thread, _, address, size, file, line, stream = get
        freed = free and f"{self.place(free[6], free[7])} by thread {free[2]}, {free[0] / 1000:.3f} us after it began"
        return Known(address, size, file, line, thread, stream, f"{since / 1000:.3f} us after the recording began", freed,
                     free[0] if free else 0)

    @property
    def misses(self):
        return self.dropped or not self.listening

    def remarks(self):
        if self.dropped:
            yield f"  {self.dropped} events were dropped for want of room: this may be wrong"
        if not self.listening:
            yield "  the recorder was stopped: what was asked for or freed since is not known"


class Guards(Memory):
    """The blocks that all guards know now: live ones, and freed ones in quarantines (src/pool/guard/view.cpp)."""

    FIELDS = ("data", "size", "since", "thread", "stream", "freed", "site", "freed_at", "line_at", "raw", "taken", "freed_since",
              "freed_by")

    def __init__(self):
        super().__init__()
        self.guards = []
        at = self.address_of("berth_guards")
        if at is None:
            return
        n = len(self.FIELDS)
        version, self.bytes, self.began, *fields = self.read(f"<IIQ{n}I", at)
        if version not in (0, 2):
            raise gdb.GdbError("berth who: the program's guards are others than this script knows")
        self.at = dict(zip(self.FIELDS, fields))
        first = at + 16 + n * 4
        (guard,) = self.words(first + -first % self.word, 1)
        while guard:
            guard, records = self.words(guard, 2)
            self.guards.append(records)

    def blocks(self):
        """By address what users asked for; and what guards asked for instead, as (address, size)."""
        all, asked = {}, set()
        for records in self.guards:  # a guard comes before the guards that it wraps
            known = [self.known(at) for at in self.vector(records)]
            all.update((b.address, b) for b, _ in known if b.address and (b.address, b.size) not in asked)
            asked.update(source for b, source in known if b.address)
        return all, asked

    def known(self, record):
        """At the address 0: a record that is nobody's now."""
        raw = self.memory.read_memory(record, self.bytes).tobytes()

        def take(form, *fields):
            return struct.unpack_from(form, raw, sum(self.at[f] for f in fields))[0]

        def word(field):
            return take("<Q" if self.word == 8 else "<I", field)

        def moment(field):
            return f"{(take('<Q', field) - self.began) / 1e6:.0f} ms after the first guard began"

        freed = None
        if word("data") and take("<?", "freed"):
            place = self.place(word("freed_at"), take("<Q", "freed_at", "line_at"))
            freed = f"{place} by thread {take('<I', 'freed_by')}, {moment('freed_since')}"
        block = Known(word("data"), take("<Q", "size"), word("site"), take("<Q", "site", "line_at"), take("<I", "thread"),
                      take("<I", "stream"), moment("since"), freed)
        return block, (word("raw"), take("<Q", "taken"))


def merged(recorder, guards):
    """By address (a block, who knows it). Of users' blocks: what a guard asked for lives until it leaves the quarantine, and the
    recorder hears of that where an adaptor lies between guard and pool."""
    of_guards, asked = guards.blocks()
    all = {a: (b, guards) for a, b in of_guards.items()}
    for b in of_guards.values():
        b.guarded = True
    for a, b in recorder.blocks().items():
        guarded = of_guards.get(a)
        if (not recorder.misses and b.is_like(guarded)) if guarded else (a, b.size) not in asked:
            b.guarded = guarded is not None
            all[a] = (b, recorder)  # the one that knows more of it
    return all


def holder(address, all, misses):
    """The block that an address lies in, or did last. What is alive round a guarded block is what that one was cut from."""
    holding = [k for k in all.values() if k[0].holds(address)]
    if any(b.guarded for b, _ in holding):
        holding = [(b, by) for b, by in holding if b.guarded or (b.freed and not misses)]
    return max(holding, key=lambda k: (k[0].freed is None, k[0].order), default=(None, None))


def who(address):
    """Of what recorder and guards know. Guards miss nothing, but forget what left the quarantine."""
    recorder, guards = Recorder(), Guards()
    if not recorder.version and not guards.guards:
        missing = ("there is no recorder in this program" if recorder.version is None else
                   "no recorder was started, or it is gone")
        raise gdb.GdbError(f"berth who: {missing} (berth/trace/recorder.hpp), and no guard (berth/pool/debug.hpp)")
    all = merged(recorder, guards)
    block, by = holder(address, all, recorder.misses)
    live = [k for k in all.values() if k[0].freed is None and k[0] is not block]
    if block is None:
        names = [n for n, is_there in (("recorder", recorder.version), ("guard", guards.guards)) if is_there]
        yield f"{address:#x}: in no block that the {' or a '.join(names)} knows"
    else:
        yield f"{address:#x}: byte {address - block.address} of the {'freed ' if block.freed else ''}{block.said(by)}"
        if block.freed:
            yield f"  freed  at {block.freed}"
    below = max((k for k in live if k[0].address + k[0].size <= address), key=lambda k: k[0].address, default=None)
    above = min((k for k in live if k[0].address > address), key=lambda k: k[0].address, default=None)
    if below:
        yield f"  below  {address - below[0].address - below[0].size} bytes behind the end of the {below[0].said(below[1])}"
    if above:
        yield f"  above  {above[0].address - address} bytes before the {above[0].said(above[1])}"
    if recorder.version:
        yield from recorder.remarks()


class Berth(gdb.Command):
    """What Berth knows of the program: berth who ADDRESS."""

    def __init__(self):
        super().__init__("berth", gdb.COMMAND_DATA, prefix=True)


class Who(gdb.Command):
    """berth who ADDRESS: whose block of a pool an address lies in, or did last; who asked for it and who freed it, and the live blocks
below and above. Of a process or a core in which a recorder (berth/trace/recorder.hpp) was started, or guards watch pools."""

    def __init__(self):
        super().__init__("berth who", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        if not argument.strip():
            raise gdb.GdbError("berth who ADDRESS: an expression, such as 0x7f3a1000 or data + 4")
        try:
            asked, language = gdb.parse_and_eval(argument), gdb.parameter("language")
            gdb.execute("set language c", to_string=True)  # others have no such types and casts
            try:
                address = int(asked.cast(gdb.lookup_type("unsigned long")))
                for line in who(address):
                    print(line)
            finally:
                gdb.execute(f"set language {language}", to_string=True)
        except gdb.error as e:
            raise gdb.GdbError(f"berth who: {e}")


gdb.printing.register_pretty_printer(None, printers(), replace=True)
Berth()
Who()
