#!/usr/bin/env python3
"""Compares greedy `ashlar run` with prebuilt llama.cpp's continuations of ten prompts.

    check_continuations.py --binary build/release/bin/ashlar --model MODEL.gguf [--kv-codec f32]

Three rules (README.md says why these):
 1. Left to itself, ashlar writes the tokens that llama.cpp writes with exact f32 weights, up to a
    near tie.
 2. From there on, and along llama.cpp's continuations of the quantised file as it is, ashlar is
    given llama.cpp's tokens and must find likeliest what the float64 reference finds likeliest.
 3. An exception is a near tie: the reference's two likeliest logits lie closer than --near-tie.
    Each is listed.
Exit code 0 when they hold, 1 otherwise.
"""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
import ashlar_cli
from check_logits import require_model

GOLDENS = Path(__file__).resolve().parent / "goldens" / "continuations.json"


class Checker:
    def __init__(self, ashlar, args, golden):
        self._ashlar = ashlar
        self._model = args.model
        self._near_tie = args.near_tie
        self._vocab_size = golden["vocab_size"]
        self.compared = 0
        self.ties = []
        self.faults = []

    def check(self, case):
        tokens = case["exact"]["tokens"]
        report = self._ashlar.run_json(
            self._model, case["prompt"], "--temperature", "0", "--max-tokens", len(tokens)
        )
        agreed = self._compare(case, "exact", report["token_ids"], tokens, case["exact"]["gap"])
        if agreed:
            self._compare_forced(case, "exact")
        self._compare_forced(case, "native")

    def _compare_forced(self, case, kind):
        """Given llama.cpp's tokens: what ashlar finds likeliest at each step is the reference's."""
        golden = case[kind]
        ids = case["prompt"] + golden["tokens"][:-1]
        with tempfile.TemporaryDirectory(prefix="ashlar-logits-") as folder:
            path = Path(folder) / "logits.f32"
            self._ashlar.write_logits(self._model, ids, path)
            logits = ashlar_cli.map_logits(path, self._vocab_size)
            ours = logits[len(case["prompt"]) - 1 : len(ids)].argmax(axis=1)
            del logits
        for step, wanted in enumerate(golden["reference"]):
            self._judge(case, kind, step, int(ours[step]), wanted, golden["gap"][step])

    def _compare(self, case, kind, ours, wanted, gaps):
        """Token by token up to the first difference. Whether there was one (then it was judged)."""
        if len(ours) > len(wanted):
            self.faults.append(
                f"{case['text']!r}: {len(ours)} tokens, at most {len(wanted)} were asked for"
            )
        for step, token in enumerate(wanted):
            our_token = ours[step] if step < len(ours) else None
            self._judge(case, kind, step, our_token, token, gaps[step])
            if our_token != token:
                return True
        return False

    def _judge(self, case, kind, step, ours, wanted, gap):
        self.compared += 1
        if ours == wanted:
            return
        line = (
            f"{case['text']!r}, {kind}, step {step}: token {ours}, wanted {wanted}, "
            f"the reference's gap {gap:.5f}"
        )
        (self.ties if gap < self._near_tie else self.faults).append(line)


def main():
    parser = ashlar_cli.parser(__doc__)
    parser.add_argument(
        "--kv-codec", default="f32", help="f32 by default: no rounding of the cache to excuse"
    )
    parser.add_argument(
        "--near-tie", type=float, default=1e-2, help="logit gap under which two tokens tie"
    )
    args = parser.parse_args()

    golden = json.loads(GOLDENS.read_text())
    require_model(args.model, golden["model_sha256"])
    flags = ["--kv-codec", args.kv_codec, "--activations", "f32"]
    checker = Checker(ashlar_cli.Ashlar(args.binary, flags), args, golden)
    for case in golden["cases"]:
        checker.check(case)
    for line in sorted(set(checker.ties)):
        print(f"near tie: {line}")
    for line in checker.faults:
        print(f"FAILED: {line}")
    print(
        f"{len(golden['cases'])} prompts, {checker.compared} tokens compared with {golden['peer']} "
        f"and the reference, KV {args.kv_codec}: {len(set(checker.ties))} near ties, "
        f"{len(checker.faults)} faults"
    )
    return 1 if checker.faults else 0


if __name__ == "__main__":
    sys.exit(main())
