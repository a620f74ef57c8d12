#!/usr/bin/env python3
"""Holds folders of safetensors, as transformers writes them, against the GGUF file of the same model.

    validate_folders.py --binary build/release/bin/ashlar --maker build/release/bin/make_tiny_model
                        [--models a,b]

By hand: needs the PyPI packages torch and transformers. Each tiny model becomes a transformers model
(transformers_twin.py), which saves itself; ashlar computes both. Prints the largest difference over 96
random tokens as a fraction of the row's range: 0 where all bits are equal. README.md keeps the results.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
import ashlar_cli
import reference_forward
from check_tiny import largest_error, models_of
from transformers_twin import twin_of

TOKENS = 96


def write_tokenizer(model, folder):
    """The tiny models' byte-level BPE without merges."""
    tokens = [str(token) for token in model.metadata["tokenizer.ggml.tokens"]]
    types = model.metadata["tokenizer.ggml.token_type"]
    added = [
        {"id": i, "content": token, "special": True, "lstrip": False, "rstrip": False}
        for i, token in enumerate(tokens)
        if types[i] == 3
    ]
    digits = {"type": "Digits", "individual_digits": True}
    words = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    tokenizer = {
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, words]},
        "post_processor": None,
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def logits_of(ashlar, path, ids, vocab_size, folder):
    out = folder / "logits.f32"
    ashlar.write_logits(path, ids, out)
    return np.array(ashlar_cli.map_logits(out, vocab_size), dtype=np.float64)


def compare(ashlar, maker, name, folder):
    path = folder / "tiny.gguf"
    subprocess.run([maker, name, path], check=True, capture_output=True)
    model = reference_forward.Model(path)
    ids = [int(token) for token in np.random.default_rng(5).integers(0, model.vocab_size, TOKENS)]
    saved = folder / "saved"
    twin_of(model).float().save_pretrained(saved)
    write_tokenizer(model, saved)
    theirs = logits_of(ashlar, saved, ids, model.vocab_size, folder)
    ours = logits_of(ashlar, path, ids, model.vocab_size, folder)
    return largest_error(theirs, ours)


def main():
    parser = ashlar_cli.parser(__doc__)
    parser.add_argument("--maker", required=True, help="the make_tiny_model program")
    parser.add_argument("--models", help="comma-separated; all by default")
    args = parser.parse_args()
    ashlar = ashlar_cli.Ashlar(args.binary, ["--kv-codec", "f32", "--activations", "f32"])
    for name in args.models.split(",") if args.models else models_of(args.maker):
        with tempfile.TemporaryDirectory(prefix="ashlar-folders-") as folder:
            try:
                error, position = compare(ashlar, args.maker, name, Path(folder))
                print(f"{name}: {error:.1e} at position {position}", flush=True)
            except (ashlar_cli.ProgramFailed, ValueError, AttributeError) as error:
                print(f"{name}: {error}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
