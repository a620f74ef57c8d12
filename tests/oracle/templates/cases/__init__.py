"""Small templates, each about one thing. `all_cases()` yields (name, template, context)."""

import importlib

GROUPS = ("lexing", "expressions", "strings", "sequences", "statements", "functions", "errors", "families")


def all_cases():
    for group in GROUPS:
        module = importlib.import_module(f"cases.{group}")
        for subject, context, templates in module.CASES:
            for number, template in enumerate(templates, 1):
                yield f"{group}/{subject}/{number}", template, context
