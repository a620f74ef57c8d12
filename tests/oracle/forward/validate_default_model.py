#!/usr/bin/env python3
"""Holds the reference forward pass against another implementation: transformers in float64.

    validate_default_model.py --model MODEL.gguf [--tokens 200]

Needs the PyPI packages torch, transformers and accelerate; run by hand when reference_forward.py
changes.
"""

import argparse
import os

import numpy as np

import reference_forward


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=200)
    args = parser.parse_args()

    import torch
    from transformers import AutoModelForCausalLM

    model = reference_forward.Model(args.model)
    ids = np.random.default_rng(1).integers(0, model.vocab_size, args.tokens)
    ours = reference_forward.logits(model, ids)
    folder, name = os.path.split(os.path.abspath(args.model))
    other = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        theirs = other(torch.tensor(ids)[None]).logits[0].numpy()
    error = np.abs(ours - theirs).max(axis=1) / (ours.max(axis=1) - ours.min(axis=1))
    print(f"{args.tokens} random tokens: largest difference {error.max():.1e} of the row's range")


if __name__ == "__main__":
    main()
