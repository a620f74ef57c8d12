#!/usr/bin/env python3
"""The house rules (docs/STYLE.md) as a test: prints each broken one, and fails if there is any.

tidy_test.py [--root FOLDER] [--build-dir FOLDER]
  --build-dir  a configured build folder: its compile_commands.json says how headers are compiled.
               Without it, headers are not compiled.
Needs Python 3.9 or newer and no package.
"""

import argparse
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import rule_docs  # noqa: E402
import rule_headers  # noqa: E402
import rule_includes  # noqa: E402
import rule_listed  # noqa: E402
import rule_sizes  # noqa: E402
from tree import Tree  # noqa: E402


def find_all(root, build_dir=None):
    """The findings of every rule, in order of place."""
    tree = Tree(root)
    findings = []
    for rule in (rule_docs, rule_includes, rule_listed, rule_sizes):
        findings += rule.find(tree)
    findings += rule_headers.find(tree, build_dir)
    return len(tree.paths), sorted(findings)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--build-dir", type=os.path.abspath)
    arguments = parser.parse_args()
    count, findings = find_all(arguments.root, arguments.build_dir)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} finding{'' if len(findings) == 1 else 's'} in {count} files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
