#!/usr/bin/env python3
"""Writes dequantize_goldens.bin: random GGUF rows of every format and the values that the `gguf` Python
package gives for them. Run once, by hand, in an environment with `gguf` and `numpy`:

    python3 make_dequantize_goldens.py dequantize_goldens.bin

Per format: name (8 bytes, zero filled), u32 elements, u32 row bytes, the row, f32 values[elements].
Random bytes exercise every bit of a block; only the f16 scales are replaced, because a random f16 may
be infinite or NaN.
"""

import struct
import sys

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

ELEMENTS = 512
# Format: byte offsets of the f16 scales inside a block.
SCALES = {
    T.F32: [],
    T.F16: [],
    T.BF16: [],
    T.Q4_0: [0],
    T.Q4_1: [0, 2],
    T.Q5_0: [0],
    T.Q5_1: [0, 2],
    T.Q8_0: [0],
    T.Q4_K: [0, 2],
    T.Q5_K: [0, 2],
    T.Q6_K: [208],
    T.Q2_K: [80, 82],
    T.Q3_K: [108],
    T.IQ4_NL: [0],
    T.MXFP4: [],
}


def random_row(rng, dtype):
    columns, block_bytes = GGML_QUANT_SIZES[dtype]
    blocks = ELEMENTS // columns
    if dtype == T.F32:
        return rng.standard_normal(ELEMENTS).astype(np.float32).view(np.uint8)
    if dtype == T.F16:
        values = rng.standard_normal(ELEMENTS) * 10.0 ** rng.integers(-7, 4, ELEMENTS)
        return values.astype(np.float16).view(np.uint8)
    if dtype == T.BF16:
        bits = rng.integers(0, 1 << 16, ELEMENTS, dtype=np.uint16)
        bits[(bits & 0x7F80) == 0x7F80] = 0x3F80
        return bits.view(np.uint8)
    rows = rng.integers(0, 256, (blocks, block_bytes), dtype=np.uint8)
    for offset in SCALES[dtype]:
        scale = rng.standard_normal(blocks) * 10.0 ** rng.integers(-6, 2, blocks)
        rows[:, offset : offset + 2] = scale.astype(np.float16).view(np.uint8).reshape(blocks, 2)
    if dtype == T.MXFP4:  # exponents; the greatest overflow
        rows[:, 0] = rng.integers(0, 240, blocks)
    return rows.reshape(-1)


def main():
    rng = np.random.default_rng(20)
    with open(sys.argv[1], "wb") as out:
        for dtype in SCALES:
            row = random_row(rng, dtype)
            values = dequantize(row, dtype).astype(np.float32).reshape(-1)
            assert values.size == ELEMENTS and np.isfinite(values).all()
            out.write(dtype.name.encode().ljust(8, b"\0"))
            out.write(struct.pack("<II", ELEMENTS, row.size))
            out.write(row.tobytes())
            out.write(values.tobytes())


main()
