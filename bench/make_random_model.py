#!/usr/bin/env python3
"""Writes a GGUF file of Llama-3.2-1B's geometry with random weights: speed without a download.

    bench/make_random_model.py --format Q8_0|Q4_0|Q4_K_M OUT.gguf

The file says nothing sensible when it runs, and takes the time of a real one: every program reads the
same bytes. Formats are mixed as llama.cpp's quantiser mixes them: Q4_0 and Q4_K_M have an embedding
table (which is the output matrix as well) in Q6_K, Q4_K_M half of its value and down matrices. Needs
the packages numpy and gguf (scripts/test_venv.sh has them). 0.8 to 1.3 GB.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter
from gguf.constants import GGML_QUANT_SIZES

LAYERS, HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, HEAD_DIM = 16, 2048, 8192, 32, 8, 64
VOCAB = 128_256
DEVIATION = 0.02  # of weights
# Byte offsets of a block's f16 numbers, and what makes weights of about DEVIATION of random codes.
SCALES = {
    T.Q8_0: {0: DEVIATION / 74},
    T.Q4_0: {0: DEVIATION / 4.6},
    T.Q4_K: {0: DEVIATION / 4.6 / 32, 2: 7.5 * DEVIATION / 4.6 / 32},
    T.Q6_K: {208: DEVIATION / (18.5 * 74)},
}


def matrix(rng, dtype, rows, columns):
    """uint8 [rows, row bytes]: some random rows, again and again."""
    block_columns, block_bytes = GGML_QUANT_SIZES[dtype]
    some = min(rows, 256)
    blocks = rng.integers(0, 256, (some * columns // block_columns, block_bytes), dtype=np.uint8)
    for offset, scale in SCALES[dtype].items():
        blocks[:, offset : offset + 2] = np.array([scale], dtype=np.float16).view(np.uint8)
    return np.resize(blocks.reshape(some, -1), (rows, columns // block_columns * block_bytes))


def byte_characters():
    """GPT-2's names of the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    names = {byte: chr(byte) for byte in shown} | {
        byte: chr(256 + i) for i, byte in enumerate(hidden)
    }
    return [names[byte] for byte in range(256)]


def add_metadata(writer):
    writer.add_context_length(131_072)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(500_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    tokens = [*byte_characters(), "\u0120\u0120"]
    tokens += [f"<|filler_{i}|>" for i in range(VOCAB - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (VOCAB - 2) + [3, 3])
    writer.add_token_merges(["\u0120 \u0120"])
    writer.add_bos_token_id(VOCAB - 2)
    writer.add_eos_token_id(VOCAB - 1)


def types_of(name):
    """The formats of the table, of most matrices, and of the finer ones in a layer."""
    if name == "Q8_0":
        return T.Q8_0, T.Q8_0, lambda layer: T.Q8_0
    if name == "Q4_0":
        return T.Q6_K, T.Q4_0, lambda layer: T.Q4_0
    eighth = LAYERS // 8

    def finer(layer):
        more = layer < eighth or layer >= 7 * LAYERS // 8 or (layer - eighth) % 3 == 2
        return T.Q6_K if more else T.Q4_K

    return T.Q6_K, T.Q4_K, finer


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", required=True, choices=("Q8_0", "Q4_0", "Q4_K_M"))
    parser.add_argument("out", type=Path)
    args = parser.parse_args()

    rng = np.random.default_rng(1)
    table, most, finer = types_of(args.format)
    writer = GGUFWriter(args.out, "llama")
    add_metadata(writer)

    def add(name, dtype, rows, columns):
        writer.add_tensor(f"{name}.weight", matrix(rng, dtype, rows, columns), raw_dtype=dtype)

    def add_norm(name):
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, dtype=np.float32))

    add("token_embd", table, VOCAB, HIDDEN)
    add_norm("output_norm")
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        add_norm(f"{block}.attn_norm")
        add(f"{block}.attn_q", most, HEADS * HEAD_DIM, HIDDEN)
        add(f"{block}.attn_k", most, KV_HEADS * HEAD_DIM, HIDDEN)
        add(f"{block}.attn_v", finer(layer), KV_HEADS * HEAD_DIM, HIDDEN)
        add(f"{block}.attn_output", most, HIDDEN, HEADS * HEAD_DIM)
        add_norm(f"{block}.ffn_norm")
        add(f"{block}.ffn_gate", most, FEED_FORWARD, HIDDEN)
        add(f"{block}.ffn_up", most, FEED_FORWARD, HIDDEN)
        add(f"{block}.ffn_down", finer(layer), HIDDEN, FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{args.out}: {args.out.stat().st_size / 1e9:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
