#!/usr/bin/env python3
"""Prints the reference's logits of a small model as JSON, for tests that cannot run Python.

    tiny_goldens.py TINY.gguf [--tokens 24] [--positions 0,7,23] [--ids 8]

Ids are (7 * i + 3) mod vocab, so that the test can make them itself. Per position: range, argmax
and the logits of the first --ids entries.
"""

import argparse
import json

import reference_forward


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--positions", default="0,7,23")
    parser.add_argument("--ids", type=int, default=8)
    args = parser.parse_args()

    model = reference_forward.Model(args.model)
    ids = [(7 * i + 3) % model.vocab_size for i in range(args.tokens)]
    rows = reference_forward.logits(model, ids)
    for position in map(int, args.positions.split(",")):
        row = rows[position]
        golden = {
            "position": position,
            "token": ids[position],
            "range": round(float(row.max() - row.min()), 6),
            "argmax": int(row.argmax()),
            "logits": [round(float(value), 6) for value in row[: args.ids]],
        }
        print(json.dumps(golden))


if __name__ == "__main__":
    main()
