#!/usr/bin/env python3
"""Writes goldens/<family>.json: the token ids of every text of strings.json.

    make_goldens.py --libllama PATH/libllama.so [family...]

Each text is encoded by every oracle of its family (oracles.py), plain and with special tokens. Where they
agree, that is the golden; where they differ, RULES says whose word counts and why, or the case is left out.
Vocabularies are read from the cache folder (scripts/fetch_vocabs.sh).
"""

import argparse
import hashlib
import json
import os
import sys

import gguf_vocabulary
import oracles

HERE = os.path.dirname(os.path.abspath(__file__))

# (applies, whose word counts, why). A case that several apply to is left out.
RULES = [
    (
        lambda family, text: "</s>" in text and family in ("qwen2", "gemma"),
        ("tokenizers", "sentencepiece"),
        "llama.cpp treats '</s>' as a control token in every vocabulary; here it is text or markup",
    ),
    (
        lambda family, text: "▁" in text and family == "gemma",
        ("llama.cpp",),
        "SentencePiece also finds user-defined runs of spaces in a text's own U+2581 characters",
    ),
    (
        lambda family, text: "</s>" in text and family == "phi-3",
        (),
        "'</s>' is user-defined and takes the white space after it: SentencePiece does not do the second, llama.cpp "
        "does neither in plain texts",
    ),
]


def decide(family, text, answers):
    """answers: {oracle: ids}. Returns (ids or None, why or None)."""
    distinct = {tuple(ids) for ids in answers.values()}
    if len(distinct) == 1:
        return list(distinct.pop()), None
    rules = [(names, why) for applies, names, why in RULES if applies(family, text)]
    if len(rules) != 1:
        return None, "left out: the oracles differ"
    names, why = rules[0]
    return next((answers[name] for name in names if name in answers), None), why


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make(family, strings, libllama):
    model = oracles.model_path(family)
    all_oracles = oracles.oracles_for(model, libllama)
    vocabulary = gguf_vocabulary.Vocabulary(model)
    prefix = [vocabulary.bos] if vocabulary.adds_bos else []
    plain, special, notes = [], {}, {}
    for i, text in enumerate(strings):
        for is_special in (False, True):
            answers = {
                o.name: o.encode(text, is_special)
                for o, specials in all_oracles
                if specials or not is_special
            }
            ids, why = decide(family, text, answers)
            if why:
                notes.setdefault(why, []).append(i)
                print(
                    f"{family}: {text!r} ({'special' if is_special else 'plain'}): {why}",
                    file=sys.stderr,
                )
            if not is_special:
                plain.append(ids)
            elif plain[-1] is None or ids != prefix + plain[-1]:
                special[str(i)] = ids
    golden = {
        "model": oracles.FAMILIES[family],
        "sha256": sha256_of(model),
        "oracles": [o.name for o, _ in all_oracles],
        "notes": notes,  # why: indices of strings
        "special_prefix": prefix,
        "plain": plain,
        "special": special,  # where it is not special_prefix + plain
    }
    with open(os.path.join(HERE, "goldens", f"{family}.json"), "w", encoding="ascii") as file:
        head = {key: value for key, value in golden.items() if key not in ("plain", "special")}
        lines = ",\n".join(json.dumps(ids, separators=(",", ":")) for ids in plain)
        tail = ",\n".join(
            f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in special.items()
        )
        file.write(
            json.dumps(head, indent=1)[:-2]
            + ',\n "plain": [\n'
            + lines
            + '\n ],\n "special": {\n'
            + tail
            + "\n }\n}\n"
        )
    print(f"{family}: {len(strings)} texts, {sum(ids is None for ids in plain)} left out")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--libllama", required=True)
    parser.add_argument("families", nargs="*", default=list(oracles.FAMILIES))
    args = parser.parse_args()
    with open(os.path.join(HERE, "strings.json")) as file:
        strings = json.load(file)
    for family in args.families or oracles.FAMILIES:
        make(family, strings, args.libllama)


if __name__ == "__main__":
    main()
