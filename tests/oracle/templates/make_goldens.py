"""Writes src/text/jinja/testdata/cases.json: the small templates of cases/ with what jinja2 makes of them.

usage: make_goldens.py [--check]
--check: writes nothing; exit status 1 when the file is not what would be written.
"""

import argparse
import json
import pathlib
import sys

import cases
import reference

# Templates longer than this are written once.
SHARED_FROM = 600
GOLDENS = pathlib.Path(__file__).parents[3] / "src/text/jinja/testdata/cases.json"


def golden_text():
    contexts = {}  # written once, by the group's name
    shared = {}  # long templates that several cases use: text to its number
    lines = []
    for name, template, context in cases.all_cases():
        contexts[name.rsplit("/", 1)[0]] = context
        text, error = reference.render(template, context)
        entry = {"name": name}
        if len(template) > SHARED_FROM:
            entry["use"] = shared.setdefault(template, len(shared))
        else:
            entry["template"] = template
        entry.update({"fails": True} if error else {"text": text})
        lines.append(json.dumps(entry))
    parts = {
        "contexts": "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in contexts.items()) + "\n}",
        "templates": "[\n" + ",\n".join(json.dumps(template) for template in shared) + "\n]",
        "cases": "[\n" + ",\n".join(lines) + "\n]",
    }
    body = ",\n".join(f'"{key}": {value}' for key, value in parts.items())
    return f'{{"now": "{reference.NOW.isoformat()}",\n{body}}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = golden_text()
    if arguments.check:
        if GOLDENS.read_text(encoding="utf-8") != text:
            print(f"{GOLDENS} is not what the reference says now; run make_goldens.py and look at the difference")
            return 1
        return 0
    GOLDENS.parent.mkdir(exist_ok=True)
    GOLDENS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
