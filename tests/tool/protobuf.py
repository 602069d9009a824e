"""The wire format of protocol buffers: enough to write the models that the tool's tests need, and to read them back."""


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, value):
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(text):
    """The other way: (number, value) of each; text without fields of other kinds."""
    at, found = 0, []

    def number():
        nonlocal at
        n = shift = 0
        while True:
            n |= (text[at] & 127) << shift
            shift += 7
            at += 1
            if text[at - 1] < 128:
                return n

    while at < len(text):
        tag = number()
        value = number()
        if tag & 7 == 2:
            value, at = text[at:at + value], at + value
        found.append((tag >> 3, value))
    return found
