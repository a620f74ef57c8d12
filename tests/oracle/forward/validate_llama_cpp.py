#!/usr/bin/env python3
"""Holds the reference against llama.cpp on the tiny models of every family, by hand.

    validate_llama_cpp.py --maker build/release/bin/make_tiny_model [--models a,b]

Needs the PyPI package xllamacpp. llama.cpp is given an F32 twin of each file, an f32 cache and no
flash attention; it answers with log probabilities, so those are compared, at 16 positions of 96
random tokens. Prints the largest difference as a fraction of the row's range. README.md keeps the
results and says why some are larger.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import reference_forward
from check_tiny import models_of
from llama_cpp import LlamaCpp, write_f32_twin
from logit_summary import logsumexp

TOKENS = 96
POSITIONS = range(TOKENS - 1, -1, -6)

# llama.cpp takes DeepSeek files without this key only when they have as many layers as V2-Lite.
NO_Q_RANK = {"deepseek2.attention.q_lora_rank": 0}
CHANGES = {f"deepseek2{kind}": NO_Q_RANK for kind in ("", "-q8_0", "-unsplit")}


def compare(maker, name, folder):
    """(largest difference, its position)."""
    path, twin = Path(folder) / f"{name}.gguf", Path(folder) / f"{name}-f32.gguf"
    subprocess.run([maker, name, path], check=True, capture_output=True)
    write_f32_twin(path, twin, CHANGES.get(name))
    context = 2048  # what rotation factors are chosen by
    model = reference_forward.Model(path, context)
    ids = [int(i) for i in np.random.default_rng(5).integers(0, model.vocab_size, TOKENS)]
    ours = reference_forward.logits(model, ids)
    ours = ours - logsumexp(ours)[:, None]
    peer = LlamaCpp(twin, f32_cache=True, context=context)
    errors = []
    for position in POSITIONS:
        row = ours[position]
        theirs = peer.log_probabilities(ids[: position + 1], model.vocab_size)
        errors.append((np.abs(row - theirs).max() / (row.max() - row.min()), position))
    return max(errors)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--maker", required=True)
    parser.add_argument("--models", help="comma-separated; all by default")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="ashlar-families-") as folder:
        for name in args.models.split(",") if args.models else models_of(args.maker):
            try:
                error, position = compare(args.maker, name, folder)
                print(f"{name}: {error:.1e} at position {position}", flush=True)
            except RuntimeError as refusal:
                print(f"{name}: llama.cpp: {refusal}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
