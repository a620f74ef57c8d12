#!/usr/bin/env python3
"""Writes goldens/continuations.json: greedy continuations by prebuilt llama.cpp, and the reference.

    make_continuations.py --model MODEL.gguf --out goldens/continuations.json

Needs the PyPI packages gguf, numpy and xllamacpp (prebuilt llama.cpp). For each prompt llama.cpp
continues twice, greedily:

    exact    from a twin of the file whose weights are the same numbers, dequantised to F32,
             with an F32 cache: llama.cpp then multiplies in f32
    native   from the file itself, with llama.cpp's defaults: it rounds activations to 8 bits to
             multiply them with 4-bit weights, which moves logits by a few percent of their range

and at each step of both the float64 reference, given the same prefix, says which token it finds
likeliest and how far ahead of the second it is. Where `native` and the reference differ, the exact
llama.cpp is asked too, with the same prefix. README.md says what is demanded of the engine with
these.
"""

import argparse
import json
import os
import sys
import tempfile

import numpy as np

import reference_forward
from llama_cpp import LlamaCpp, write_f32_twin
from make_logit_goldens import sha256_of

TOKENS = 64
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = [
    "The main differences between a cathedral and a castle are",
    "Once upon a time, in a village at the foot of a mountain, there lived",
    "Water is made of two elements:",
    'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\n",
    "1, 2, 4, 8, 16, 32,",
    "In the beginning God created the heaven and the earth. And the earth was",
    CHAT.format("Explain in simple words why the sky is blue."),
    CHAT.format("List the planets of the solar system and one fact about each."),
    CHAT.format("Write a short story about a stonemason who builds a bridge without mortar."),
]


def judge(model, prompt, tokens):
    """What the reference thinks at each step, given the same prefix."""
    rows = reference_forward.logits(model, prompt + tokens[:-1])[len(prompt) - 1 :]
    second, first = np.partition(rows, -2, axis=1)[:, -2:].T
    return {
        "tokens": tokens,
        "reference": [int(token) for token in rows.argmax(axis=1)],
        "gap": [round(float(gap), 5) for gap in first - second],
    }


def differing_steps(result):
    return [
        step for step, token in enumerate(result["tokens"]) if token != result["reference"][step]
    ]


def describe(case):
    """One line of the README's table; "!" where the exact llama.cpp and the reference differ."""
    exact, native = case["exact"], case["native"]
    steps = []
    for step in differing_steps(native):
        odd = "" if native["exact_says"][step] == native["reference"][step] else "!"
        steps.append(f"{step} ({native['gap'][step]:.3f}{odd})")
    ties = [(step, gap) for step, gap in enumerate(exact["gap"]) if gap < 1e-2]
    print(
        f"| {case['text'][:40]!r} | {len(exact['tokens'])} | {len(differing_steps(exact))} "
        f"| {ties} | {', '.join(steps)} |",
        file=sys.stderr,
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    import xllamacpp

    model = reference_forward.Model(args.model)
    native = LlamaCpp(args.model, f32_cache=False)
    prompts = [native.tokenize(text) for text in PROMPTS]
    native_tokens = [native.continue_greedily(ids, TOKENS) for ids in prompts]
    with tempfile.TemporaryDirectory() as folder:
        twin = os.path.join(folder, "f32.gguf")
        write_f32_twin(args.model, twin)
        exact = LlamaCpp(twin, f32_cache=True)
        exact_tokens = [exact.continue_greedily(ids, TOKENS) for ids in prompts]
        cases = []
        for text, ids, exact_ids, native_ids in zip(PROMPTS, prompts, exact_tokens, native_tokens):
            case = {"text": text, "prompt": ids}
            case["exact"] = judge(model, ids, exact_ids)
            case["native"] = judge(model, ids, native_ids)
            case["native"]["exact_says"] = {
                step: exact.continue_greedily(ids + native_ids[:step], 1)[0]
                for step in differing_steps(case["native"])
            }
            cases.append(case)
            describe(case)
    golden = {
        "model_sha256": sha256_of(args.model),
        "vocab_size": model.vocab_size,
        "peer": f"llama.cpp of xllamacpp {xllamacpp.__version__}",
        "cases": cases,
    }
    with open(args.out, "w") as file:
        file.write(json.dumps(golden, separators=(",", ":")).replace('{"text"', '\n{"text"') + "\n")


if __name__ == "__main__":
    main()
