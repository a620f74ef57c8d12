#!/usr/bin/env python3
"""Compares `ashlar run --logits-out` with the reference's goldens at every position.

    check_logits.py --binary build/release/bin/ashlar [--goldens gemma3] [--model MODEL.gguf]
                    [--kv-codec f16] [--activations f32] [--prompts short,long]

Exit code 0 when every stored value of every row agrees within 2e-3 of the row's range, with
activations in 8 bits within 6e-2; 1 otherwise.
Prints, per prompt, the largest error of each kind of value as a fraction of the range. README.md
says what the values are.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
import ashlar_cli
import logit_summary

GOLDENS = Path(__file__).resolve().parent / "goldens"
ROWS_AT_ONCE = 256


def require_model(path, digest):
    if not Path(path).is_file():
        sys.exit(f"no model at {path}: run scripts/fetch_model.sh, or name it with --model")
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        sys.exit(f"{path} is not the model of the goldens: SHA-256 {found}, wanted {digest}")


def rows_of(goldens, name, begin, end):
    kinds = ("min", "max", "argmax", "lse", "samples", "projections")
    return {kind: goldens[f"{name}.{kind}"][begin:end] for kind in kinds}


def check_rows(goldens, name, first_row, logits):
    """{kind: (largest error, its position)} over all rows of one prompt."""
    sign = logit_summary.signs(logits.shape[1])
    worst = {}
    for begin in range(0, len(logits), ROWS_AT_ONCE):
        rows = logits[begin : begin + ROWS_AT_ONCE].astype(np.float64)
        golden = rows_of(goldens, name, begin, begin + len(rows))
        numbers = np.arange(first_row + begin, first_row + begin + len(rows))
        for kind, values in logit_summary.errors(golden, rows, numbers, sign).items():
            at = int(values.argmax())
            if kind not in worst or values[at] > worst[kind][0]:
                worst[kind] = (float(values[at]), begin + at)
    if "full_row" in goldens and str(goldens["full_row_prompt"]) == name:
        low, high = goldens[f"{name}.min"][-1], goldens[f"{name}.max"][-1]
        error = logit_summary.row_errors(
            goldens["full_row"], low, high, logits[-1].astype(np.float64)
        )
        worst["whole row"] = (error, len(logits) - 1)
    return worst


def check_prompt(ashlar, args, goldens, name, first_row):
    ids = goldens[f"{name}.ids"]
    with tempfile.TemporaryDirectory(prefix="ashlar-logits-") as folder:
        path = Path(folder) / "logits.f32"
        report = ashlar.write_logits(args.model, ids, path)
        logits = ashlar_cli.map_logits(path, int(goldens["vocab_size"]))
        if len(logits) != len(ids):
            print(f"{name}: {len(logits)} rows of logits for {len(ids)} tokens")
            return False
        worst = check_rows(goldens, name, first_row, logits)
        del logits
    largest = max(error for error, _ in worst.values())
    limit = logit_summary.TOLERANCE
    if args.activations == "int8":
        limit = logit_summary.INT8_TOLERANCE
    good = largest <= limit  # false for NaN
    details = ", ".join(
        f"{kind} {error:.1e} at {position}" for kind, (error, position) in worst.items()
    )
    speed = report.get("prefill_tokens_per_s")
    print(
        f"{name}: {len(ids)} tokens, KV {report['kv']['codec']}, activations {args.activations}: "
        f"{'ok' if good else 'FAILED'}; largest error {largest:.2e} of the range (limit {limit:.0e}); "
        f"{details}; prefill {speed and round(speed)} tokens/s",
        flush=True,
    )
    return good


def main():
    parser = ashlar_cli.parser(__doc__)
    parser.add_argument(
        "--goldens", default="smollm2", choices=sorted(ashlar_cli.MODEL_FILES), help="of which model"
    )
    parser.set_defaults(model=None)
    parser.add_argument("--prompts", help="names, comma-separated; all by default")
    parser.add_argument("--kv-codec", help="passed on; the program's default otherwise")
    parser.add_argument("--activations", default="f32", choices=("f32", "int8"), help="passed on")
    parser.add_argument("--threads", help="passed on")
    args = parser.parse_args()

    args.model = args.model or str(ashlar_cli.cached_model(args.goldens))
    goldens = np.load(GOLDENS / f"{args.goldens}_logits.npz")
    require_model(args.model, str(goldens["model_sha256"]))
    flags = ["--kv-codec", args.kv_codec] if args.kv_codec else []
    flags += ["--activations", args.activations]
    flags += ["--threads", args.threads] if args.threads else []
    ashlar = ashlar_cli.Ashlar(args.binary, flags)

    names = [str(name) for name in goldens["names"]]
    wanted = args.prompts.split(",") if args.prompts else names
    unknown = set(wanted) - set(names)
    if unknown:
        sys.exit(f"no goldens for {sorted(unknown)}; there are {names}")
    good, first_row = True, 0
    for name in names:
        if name in wanted:
            good = check_prompt(ashlar, args, goldens, name, first_row) and good
        first_row += len(goldens[f"{name}.ids"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
