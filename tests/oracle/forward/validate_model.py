#!/usr/bin/env python3
"""Holds the reference against transformers and llama.cpp on a real model, by hand.

    validate_model.py --model MODEL.gguf [--tokens 200] [--ids PROMPT.json]

Tokens are random, or the first of a prompt. transformers reads the file itself and computes in
float64, at all positions; llama.cpp gets an F32 twin of the file and an f32 cache, and answers at
four positions with log probabilities. Needs the PyPI packages torch, transformers, accelerate and
xllamacpp.
"""

import argparse
import json
import os
import tempfile

import numpy as np

import reference_forward
from llama_cpp import LlamaCpp, write_f32_twin
from logit_summary import logsumexp


def largest(ours, theirs):
    """Largest difference of rows, as a fraction of their range."""
    spans = ours.max(axis=1) - ours.min(axis=1)
    return float((np.abs(ours - theirs).max(axis=1) / spans).max())


def by_transformers(path, ids):
    import torch
    from transformers import AutoModelForCausalLM

    folder, name = os.path.split(os.path.abspath(path))
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        return model(torch.tensor(ids)[None]).logits[0].numpy()


def by_llama_cpp(path, ids, positions, vocab_size):
    with tempfile.TemporaryDirectory() as folder:
        twin = os.path.join(folder, "f32.gguf")
        write_f32_twin(path, twin)
        peer = LlamaCpp(twin, f32_cache=True)
        return np.stack([peer.log_probabilities(ids[: p + 1], vocab_size) for p in positions])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--ids", help="a JSON array of token ids")
    args = parser.parse_args()

    model = reference_forward.Model(args.model)
    ids = np.random.default_rng(1).integers(0, model.vocab_size, args.tokens)
    if args.ids:
        with open(args.ids) as file:
            ids = np.array(json.load(file)[: args.tokens])
    ids = [int(token) for token in ids]
    ours = reference_forward.logits(model, ids)
    print(f"{len(ids)} tokens, largest difference as a fraction of the row's range")
    print(f"transformers: {largest(ours, by_transformers(args.model, ids)):.1e}", flush=True)
    positions = [len(ids) * part // 4 - 1 for part in (1, 2, 3, 4)]
    rows = ours[positions] - logsumexp(ours[positions])[:, None]
    theirs = by_llama_cpp(args.model, ids, positions, model.vocab_size)
    print(f"llama.cpp: {largest(rows, theirs):.1e}")


if __name__ == "__main__":
    main()
