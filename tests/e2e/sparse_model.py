"""GGUF files of a real model's geometry whose weights are a hole in the file: all zeros, and no bytes on disk.

For what depends on sizes alone: what loading reads, what memory is taken.
"""

import struct
from dataclasses import dataclass

ALIGNMENT = 32
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
# Number of the type in the file, elements and bytes of a block.
TYPES = {"F32": (0, 1, 4), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34)}


@dataclass
class Geometry:
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocab: int
    context: int


LLAMA_7B = Geometry(32, 4096, 11008, 32, 32, 32000, 4096)
LLAMA_1B = Geometry(16, 2048, 8192, 32, 8, 32000, 8192)


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    if isinstance(value, bool):
        return struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _text(value)
    if value and isinstance(value[0], int):
        return struct.pack(f"<IIQ{len(value)}i", ARRAY, I32, len(value), *value)
    return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(_text, value))


def _byte_tokens():
    """GPT-2's alphabet: printable bytes are themselves, others follow from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _metadata(shape):
    tokens = _byte_tokens()
    tokens += [f"<unused{i}>" for i in range(len(tokens), shape.vocab)]
    return {
        "general.architecture": "llama",
        "general.name": "zeros",
        "llama.block_count": shape.layers,
        "llama.context_length": shape.context,
        "llama.embedding_length": shape.hidden,
        "llama.feed_forward_length": shape.feed_forward,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": shape.hidden // shape.heads,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 256 + [3] * (shape.vocab - 256),
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 256,
    }


def _tensors(shape, dtype):
    """(name, type, dims), row length first."""
    hidden, wide = shape.hidden, shape.feed_forward
    kv = hidden // shape.heads * shape.kv_heads
    yield "token_embd.weight", dtype, (hidden, shape.vocab)
    yield "output.weight", dtype, (hidden, shape.vocab)
    yield "output_norm.weight", "F32", (hidden,)
    for i in range(shape.layers):
        for name, dims in (
            ("attn_q", (hidden, hidden)), ("attn_k", (hidden, kv)), ("attn_v", (hidden, kv)),
            ("attn_output", (hidden, hidden)), ("ffn_gate", (hidden, wide)), ("ffn_up", (hidden, wide)),
            ("ffn_down", (wide, hidden)),
        ):  # fmt: skip
            yield f"blk.{i}.{name}.weight", dtype, dims
        yield f"blk.{i}.attn_norm.weight", "F32", (hidden,)
        yield f"blk.{i}.ffn_norm.weight", "F32", (hidden,)


def write(path, shape, dtype):
    """Writes the file; returns the bytes of its tensors."""
    infos, offset, count = b"", 0, 0
    for name, kind, dims in _tensors(shape, dtype):
        code, elements, block_bytes = TYPES[kind]
        size = block_bytes
        for dim in dims:
            size *= dim
        infos += _text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, code, offset)
        offset += (size // elements + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        count += 1
    metadata = _metadata(shape)
    head = struct.pack("<4sIQQ", b"GGUF", 3, count, len(metadata))
    head += b"".join(_text(key) + _value(value) for key, value in metadata.items()) + infos
    head += bytes(-len(head) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + offset)
    return offset
