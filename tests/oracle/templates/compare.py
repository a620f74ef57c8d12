"""Compares our chat template renderer with jinja2 on whole templates.

usage: compare.py --tool build/release/bin/render_template [--verbose] PATH...

PATH: a .jinja file, a folder of them, or a GGUF file (its tokenizer.chat_template).
Every template is rendered with every conversation of conversations.py on both sides. They agree when both
give the same text, or both an error. The exit status is 1 when any template differs.
"""

import argparse
import pathlib
import sys

import conversations
import gguf_metadata
import reference


def read_templates(paths):
    for path in paths:
        path = pathlib.Path(path)
        if path.is_dir():
            yield from read_templates(sorted(path.glob("*.jinja")))
        elif path.suffix == ".gguf":
            yield path.name, gguf_metadata.read_string(path, "tokenizer.chat_template")
        else:
            yield path.name, path.read_text(encoding="utf-8")


def compare_template(template, renderer):
    """(number of contexts, number of texts, list of (context name, theirs, ours))."""
    count = texts = 0
    differences = []
    theirs_of = reference.Template(template)
    for name, context in conversations.contexts():
        theirs, their_error = theirs_of.render(context)
        ours, our_error, _ = renderer.render(template, context)
        count += 1
        texts += theirs is not None
        if theirs != ours:
            differences.append((name, theirs or their_error, ours or our_error))
    return count, texts, differences


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"at {at}: {a[max(0, at - 30):at + 60]!r}\n      ours: {b[max(0, at - 30):at + 60]!r}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tool", required=True)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    renderer = reference.OurRenderer(arguments.tool)
    templates = same = contexts = same_contexts = all_texts = 0
    for name, template in read_templates(arguments.paths):
        count, texts, differences = compare_template(template, renderer)
        templates += 1
        contexts += count
        all_texts += texts
        same_contexts += count - len(differences)
        same += not differences
        if arguments.verbose or differences:
            print(
                f"{'differs' if differences else 'same   '} {count - len(differences)}/{count} ({texts} texts) {name}"
            )
        for context, theirs, ours in differences[: 20 if arguments.verbose else 2]:
            print(f"    {context}\n      theirs {first_difference(theirs, ours)}")
    renderer.close()
    print(
        f"{same} of {templates} templates are the same in every context; "
        f"{same_contexts} of {contexts} renders ({all_texts} texts, the rest errors on both sides)"
    )
    return 0 if same == templates else 1


if __name__ == "__main__":
    sys.exit(main())
