#!/usr/bin/env python3
"""Holds the reference against transformers on the tiny models of every family, by hand.

    validate_transformers.py --maker build/release/bin/make_tiny_model [--models a,b]

Needs the PyPI packages torch and transformers. Everything in float64, but for what transformers
computes in float32 whatever the weights are (norms, rotations, some routers). Prints the largest
difference over 96 random tokens as a fraction of the row's range. README.md keeps the results.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import reference_forward
from check_tiny import models_of
from transformers_twin import twin_of

TOKENS = 96


def compare(maker, name, folder):
    path = Path(folder) / f"{name}.gguf"
    subprocess.run([maker, name, path], check=True, capture_output=True)
    model = reference_forward.Model(path, TOKENS)  # transformers: by the length of the text
    ids = np.random.default_rng(5).integers(0, model.vocab_size, TOKENS)
    ours = reference_forward.logits(model, ids)
    with torch.no_grad():
        theirs = twin_of(model)(torch.tensor(ids)[None]).logits[0].numpy()
    errors = np.abs(ours - theirs).max(axis=1) / (ours.max(axis=1) - ours.min(axis=1))
    return errors.max(), int(errors.argmax())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--maker", required=True)
    parser.add_argument("--models", help="comma-separated; all but weight formats by default")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="ashlar-transformers-") as folder:
        for name in args.models.split(",") if args.models else models_of(args.maker):
            try:
                error, position = compare(args.maker, name, folder)
                print(f"{name}: {error:.1e} at position {position}", flush=True)
            except Exception as refusal:  # of whatever kind: the next model is asked all the same
                print(f"{name}: cannot be compared: {str(refusal).strip().splitlines()[0]}")


if __name__ == "__main__":
    sys.exit(main())
