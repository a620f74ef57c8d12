#!/usr/bin/env python3
"""Compares our tokenizer with the oracles on many more texts than the goldens hold.

    compare_random.py --libllama PATH/libllama.so --program build/release/bin/tokenize_lines
                      [--texts N] [--seed N] [--file TEXT ...] [--code-points] [family...]

Texts: random mixtures of scripts, white space, numbers and markup; windows of the given files; with
--code-points every code point in a few surroundings. Prints each difference and exits with 1 if an oracle's
word that counts (make_goldens.py) differs from ours.
"""

import argparse
import random
import sys

import make_goldens
import nasty_strings
import oracles

_RANGES = [
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0xA0, 0x24F),
    (0x300, 0x36F),
    (0x370, 0x52F),
    (0x590, 0x6FF),
    (0x900, 0xDFF),
    (0xE00, 0xEFF),
    (0x1100, 0x11FF),
    (0x2000, 0x206F),
    (0x20A0, 0x2BFF),
    (0x3000, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xFE00, 0xFFFD),
    (0x1F300, 0x1FAFF),
    (0x10000, 0x1FFFF),
    (0x20000, 0x323AF),
]
_PIECES = [
    "  ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "   ",
    "'s",
    "'LL",
    "'re ",
    "1234",
    "99",
    "0.5",
    "://",
    "...",
    "==",
    "/*",
    "*/",
    "{\n",
    "}\n",
    "</p>",
    "<|im_start|>",
    "<|eot_id|>",
    "<s>",
    "the ",
    " of",
    " and",
    "Hello",
    "WORLD",
    "camelCase",
    "snake_case",
    "é",
    "ß",
    "ﬁ",
]


def random_text(rng):
    parts = []
    for _ in range(rng.randint(1, 40)):
        if rng.random() < 0.4:
            parts.append(rng.choice(_PIECES))
        else:
            low, high = rng.choice(_RANGES)
            parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6))))
    return "".join(parts)


def window(rng, text):
    begin = rng.randrange(len(text))
    return text[begin : begin + rng.randint(1, 2000)]


def code_point_texts():
    """Planes 0 to 3 and 14: all that is assigned, and more."""
    for first in [*range(0, 0x33000, 16), *range(0xE0000, 0xE0200, 16)]:
        points = [chr(c) for c in range(first, first + 16) if not 0xD800 <= c < 0xE000]
        if points:
            yield "".join(f"a{c} {c}{c}1{c}'\n {c}!{c} " for c in points)


class Family:
    def __init__(self, family, args):
        model = oracles.model_path(family)
        self.name = family
        self.ours = oracles.Ashlar(args.program, model)
        self.oracles = oracles.oracles_for(model, args.libllama)
        self.differences = {o.name: 0 for o, _ in self.oracles}
        self.wrong, self.checked, self.undecided = 0, 0, 0

    def check(self, text, special, show):
        answers = {
            o.name: o.encode(text, special)
            for o, specials in self.oracles
            if specials or not special
        }
        ours = self.ours.encode(text, special)
        self.checked += 1
        for name, ids in answers.items():
            self.differences[name] += ids != ours
        wanted, why = make_goldens.decide(self.name, text, answers)
        if wanted is None:
            self.undecided += 1
        elif wanted != ours:
            self.wrong += 1
            if self.wrong <= show:
                print(f"{self.name} {'special' if special else 'plain'} {text!r}\n  ours {ours}")
                for name, ids in answers.items():
                    print(f"  {name} {ids}")

    def report(self):
        print(
            f"{self.name}: {self.checked} texts, {self.wrong} wrong, {self.undecided} where no oracle's word counts; "
            f"differences from {self.differences}",
            flush=True,
        )


def texts_for(args):
    rng = random.Random(args.seed)
    files = [
        open(path, encoding="utf-8", errors="replace", newline="").read() for path in args.file
    ]
    for i in range(args.texts):
        if files and i % 3 == 0:
            yield window(rng, rng.choice(files))
        elif i % 3 == 1:
            pool = (
                nasty_strings.RUNS
                + nasty_strings.SCRIPTS
                + nasty_strings.CODE
                + nasty_strings.EMOJI
            )
            yield "".join(rng.choice(pool) for _ in range(rng.randint(1, 6)))
        else:
            yield random_text(rng)
    if args.code_points:
        yield from code_point_texts()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--libllama", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--texts", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--code-points", action="store_true")
    parser.add_argument("--show", type=int, default=10)
    parser.add_argument("families", nargs="*")
    args = parser.parse_args()
    failed = False
    for name in args.families or oracles.FAMILIES:
        family = Family(name, args)
        for i, text in enumerate(texts_for(args)):
            family.check(text, i % 2 == 1, args.show)
        family.report()
        failed |= family.wrong > 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
