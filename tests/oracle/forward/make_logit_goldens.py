#!/usr/bin/env python3
"""Writes goldens/<name>.npz: what logit_summary.py keeps of the reference logits of a few prompts.

    make_logit_goldens.py --model MODEL.gguf --out goldens/NAME.npz --prompt short=SHORT.json ...

A prompt file is a JSON array of token ids. The last row of the prompt named by --full-row, if any,
is kept whole.
"""

import argparse
import hashlib
import json
import sys
import time

import numpy as np

import logit_summary
import reference_forward


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--prompt", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--full-row", metavar="NAME")
    args = parser.parse_args()

    model = reference_forward.Model(args.model)
    arrays = {
        "model_sha256": np.array(sha256_of(args.model)),
        "vocab_size": np.array(model.vocab_size),
    }
    names, first_row = [], 0
    for spec in args.prompt:
        name, path = spec.split("=", 1)
        with open(path) as file:
            ids = json.load(file)
        names.append(name)
        started = time.monotonic()
        parts = []
        for begin, rows in reference_forward.logit_chunks(model, ids):
            parts.append(
                logit_summary.encode(
                    rows, np.arange(first_row + begin, first_row + begin + len(rows))
                )
            )
        if name == args.full_row:
            arrays["full_row"] = logit_summary.encode_row(rows[-1])
            arrays["full_row_prompt"] = np.array(name)
        for kind in parts[0]:
            arrays[f"{name}.{kind}"] = np.concatenate([part[kind] for part in parts])
        arrays[f"{name}.ids"] = np.array(ids, dtype=logit_summary.id_type(model.vocab_size))
        first_row += len(ids)
        print(f"{name}: {len(ids)} tokens in {time.monotonic() - started:.1f} s", file=sys.stderr)
    arrays["names"] = np.array(names)
    np.savez_compressed(args.out, **arrays)


if __name__ == "__main__":
    main()
