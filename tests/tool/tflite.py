"""TensorFlow Lite models for tests: one subgraph of i8 tensors, written front to back."""
import struct


class Writer:
    def __init__(self):
        self.data = bytearray(b"\0\0\0\0TFL3")

    def here(self, reference):
        struct.pack_into("<I", self.data, reference, len(self.data) - reference)

    def table(self, reference, fields):
        """Fields are numbers of 4 bytes, None where one is left out. Returns where each stands."""
        offsets, size = [], 4
        for value in fields:
            offsets.append(0 if value is None else size)
            size += 0 if value is None else 4
        start = len(self.data)
        self.data += struct.pack(f"<{2 + len(fields)}H", 4 + 2 * len(fields), size, *offsets)
        self.here(reference)
        table = len(self.data)
        self.data += struct.pack("<i", table - start)
        self.data += b"".join(struct.pack("<I", value) for value in fields if value is not None)
        return [table + offset for offset in offsets]

    def vector(self, reference, values):
        self.here(reference)
        self.data += struct.pack(f"<I{len(values)}i", len(values), *values)
        return len(self.data) - 4 * len(values)

    def text(self, reference, text):
        self.here(reference)
        self.data += struct.pack("<I", len(text)) + text.encode() + b"\0"


def model(tensors, inputs, outputs, operators):
    """Tensors are (name, shape, signature or None), operators (inputs, outputs)."""
    w = Writer()
    root = w.table(0, [3, 0, 0, None, 0])
    w.table(w.vector(root[1], [0]), [0])
    w.table(w.vector(root[4], [0]), [None])
    graph = w.table(w.vector(root[2], [0]), [0, 0, 0, 0])
    at = w.vector(graph[0], [0] * len(tensors))
    for i, (name, shape, signature) in enumerate(tensors):
        t = w.table(at + 4 * i, [0, 9, None, 0, None, None, None, None if signature is None else 0])
        w.vector(t[0], shape)
        w.text(t[3], name)
        if signature is not None:
            w.vector(t[7], signature)
    w.vector(graph[1], inputs)
    w.vector(graph[2], outputs)
    at = w.vector(graph[3], [0] * len(operators))
    for i, (reads, writes) in enumerate(operators):
        node = w.table(at + 4 * i, [0, 0, 0])
        w.vector(node[1], reads)
        w.vector(node[2], writes)
    return bytes(w.data)
