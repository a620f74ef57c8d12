#!/usr/bin/env python3
"""Compares ashlar with the reference on tiny random models: one per family, option, weight format.

    check_tiny.py --binary build/release/bin/ashlar --maker build/release/bin/make_tiny_model
                  [--options a,b]

`make_tiny_model --list` prints the names of the models, one a line, and
`make_tiny_model NAME OUT.gguf` writes a model. The reference runs here and now, so nothing is
stored. Every logit of every position must agree within 3e-5 of its row's range, with an f32 cache,
in one chunk and in chunks of 7.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
import ashlar_cli
import reference_forward

# Of the row's range. f32 against float64 over a few layers needs about 1e-5; the least that a wrong
# formula has been seen to cost is 1e-4, one GELU for the other.
TOLERANCE = 3e-5
TOKENS = 300  # crosses a border of 256-token attention segments
SETTINGS = ((), ("--prefill-chunk", "7", "--threads", "1"))


def random_ids(vocab_size):
    return [int(token) for token in np.random.default_rng(3).integers(0, vocab_size, TOKENS)]


def models_of(maker):
    done = subprocess.run([maker, "--list"], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    if not names:
        sys.exit(f"{maker} --list names no model")
    return names


def largest_error(ours, reference):
    """(error as a fraction of the row's range, position); infinite for NaN or a wrong shape."""
    if ours.shape != reference.shape or not np.isfinite(ours).all():
        return np.inf, 0
    errors = np.abs(ours - reference).max(axis=1) / (reference.max(axis=1) - reference.min(axis=1))
    return float(errors.max()), int(errors.argmax())


def check_option(ashlar, maker, option, folder):
    path = Path(folder) / "tiny.gguf"
    subprocess.run([maker, option, path], check=True, capture_output=True)
    model = reference_forward.Model(path)
    ids = random_ids(model.vocab_size)
    reference = reference_forward.logits(model, ids)
    good = True
    for setting in SETTINGS:
        out = Path(folder) / "logits.f32"
        ashlar.write_logits(path, ids, out, *setting)
        ours = np.array(ashlar_cli.map_logits(out, model.vocab_size), dtype=np.float64)
        error, position = largest_error(ours, reference)
        passed = error <= TOLERANCE
        print(
            f"{option} {' '.join(setting)}: {'ok' if passed else 'FAILED'}, "
            f"largest error {error:.1e} of the range at position {position}",
            flush=True,
        )
        good = good and passed
    return good


def main():
    parser = ashlar_cli.parser(__doc__)
    parser.add_argument("--maker", required=True, help="the make_tiny_model program")
    parser.add_argument("--options", help="comma-separated; all by default")
    args = parser.parse_args()

    ashlar = ashlar_cli.Ashlar(args.binary, ["--kv-codec", "f32", "--activations", "f32"])
    options = args.options.split(",") if args.options else models_of(args.maker)
    failed = []
    with tempfile.TemporaryDirectory(prefix="ashlar-tiny-") as folder:
        for option in options:
            try:
                good = check_option(ashlar, args.maker, option, folder)
            except (
                ashlar_cli.ProgramFailed,
                reference_forward.Unsupported,
                subprocess.CalledProcessError,
            ) as error:
                print(f"{option}: FAILED, {error}")
                good = False
            if not good:
                failed.append(option)
    print(
        f"{len(options)} models, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
