"""Reads a string out of a GGUF file's metadata: just enough of the format for that."""

import struct

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


def _read(file, layout):
    return struct.unpack("<" + layout, file.read(struct.calcsize("<" + layout)))[0]


def _text(file):
    return file.read(_read(file, "Q"))


def _skip(file, kind):
    if kind == _STRING:
        _text(file)
    elif kind == _ARRAY:
        item, count = _read(file, "I"), _read(file, "Q")
        if item in _SIZES:
            file.seek(count * _SIZES[item], 1)
        else:
            for _ in range(count):
                _skip(file, item)
    else:
        file.seek(_SIZES[kind], 1)


def read_string(path, wanted):
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError(f"{path} is not a GGUF file")
        _read(file, "I"), _read(file, "Q")  # version, tensors
        for _ in range(_read(file, "Q")):
            key, kind = _text(file).decode("utf-8"), _read(file, "I")
            if key == wanted and kind == _STRING:
                return _text(file).decode("utf-8")
            _skip(file, kind)
    raise ValueError(f"{path} has no {wanted}")
