#!/usr/bin/env python3
"""Checks the chat template goldens against jinja2 as it is installed here, and our renderer against both.

    check_cases.py --tool build/release/bin/render_template [--model MODEL.gguf]

Three parties must agree on every small template of cases/: the committed golden, jinja2 now, and our tool.
With --model (default: $ASHLAR_TEST_MODEL, when that is set) the model's own template is rendered with every
conversation of conversations.py by jinja2 and by us.
"""

import argparse
import json
import os
import sys

import cases
import compare
import gguf_metadata
import make_goldens
import reference


def check_cases(renderer):
    goldens = json.loads(make_goldens.GOLDENS.read_text(encoding="utf-8"))
    committed = {entry["name"]: entry for entry in goldens["cases"]}
    wrong = 0
    for name, template, context in cases.all_cases():
        entry = committed.pop(name, {})
        source = goldens["templates"][entry["use"]] if "use" in entry else entry.get("template")
        golden = None if entry.get("fails") else entry.get("text")
        theirs, their_error = reference.render(template, context)
        ours, our_error, _ = renderer.render(template, context)
        if source == template and golden == theirs == ours:
            continue
        wrong += 1
        print(f"{name}: {template!r}\n  golden {golden!r}\n  jinja2 {theirs!r} {their_error}\n  ours   {ours!r} {our_error}")
    for name in committed:
        wrong += 1
        print(f"{name} is in the goldens and no case any more: run make_goldens.py")
    return wrong


def check_model(renderer, path):
    template = gguf_metadata.read_string(path, "tokenizer.chat_template")
    count, texts, differences = compare.compare_template(template, renderer)
    for context, theirs, ours in differences:
        print(f"{path}: {context}\n  theirs {theirs!r}\n  ours   {ours!r}")
    print(f"{path}: {count - len(differences)} of {count} conversations are the same, {texts} of them texts")
    return len(differences) + (texts == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--model", default=os.environ.get("ASHLAR_TEST_MODEL"))
    arguments = parser.parse_args()
    renderer = reference.OurRenderer(arguments.tool)
    wrong = check_cases(renderer)
    if arguments.model:
        wrong += check_model(renderer, arguments.model)
    renderer.close()
    print("templates: the same everywhere" if wrong == 0 else f"templates: {wrong} differences")
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
