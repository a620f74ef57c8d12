"""Floors, and how includes are written and ordered."""

import posixpath
import re

from tree import Finding

# docs/ARCHITECTURE.md says why. A folder includes itself and lower floors.
FLOORS = {
    "base": 0,
    "kernels": 1,
    "kv": 1,
    "gguf": 1,
    "net": 1,
    "plot": 1,
    "pull": 1,
    "trace": 1,
    "text": 2,
    "model": 2,
    "sched": 2,
    "retention": 2,
    "embed": 2,
    "engine": 3,
    "hf": 3,
    "plan": 4,
    "eval": 4,
    "load": 4,
    "simulate": 4,
    "server": 4,
    "apps": 5,
}

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<open>[<"])(?P<name>[^>"]+)[>"]')


# A source that Highway compiles once for each instruction set: it dictates the order.
_PER_TARGET = re.compile(r"^#define HWY_TARGET_INCLUDE\b", re.MULTILINE)
# Libraries that document quotes for their own headers, and are read best as documented.
_QUOTED_LIBRARIES = ("hwy/",)


def find(tree):
    findings = []
    for path in tree.cpp():
        includes = list(_includes(tree.lines(path)))
        findings += _check_targets(tree, path, includes)
        findings += _check_order(tree, path, includes)
    return findings + list(_check_links(tree))


def _includes(lines):
    """Yields (line number, '<' or '"', name, run). A run ends at any other directive or code."""
    run = 0
    for number, line in enumerate(lines, 1):
        match = _INCLUDE.match(line)
        if match:
            yield number, match["open"], match["name"], run
        elif line.strip() and not line.lstrip().startswith("//"):
            run += 1


def _folder_of(path):
    """The folder of src/ a path belongs to, or None."""
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def _may_use_doubles(path):
    return path.split("/")[0] != "src" or path.endswith("_test.cc") or "/testing/" in path


def _check_targets(tree, path, includes):
    for line, opening, name, _ in includes:
        target = _resolve(tree, name)
        if opening == "<":
            if target:
                yield Finding(path, line, "include-form", f"<{name}> is a header of ours",
                              f'write "{name}"')
            continue
        if name.startswith(_QUOTED_LIBRARIES):
            continue
        if target is None:
            yield _unresolved(tree, path, line, name)
            continue
        yield from _check_floor(path, line, name, target)
        if "/testing/" in target and not _may_use_doubles(path):
            yield Finding(path, line, "include-testing", f'"{name}" is a test double',
                          "only tests and testing/ folders may include it")


def _resolve(tree, name):
    for base in ("src", "include", ""):
        candidate = posixpath.normpath(posixpath.join(base, name))
        if ".." not in name.split("/") and candidate in tree:
            # Below the root, only tests/, fuzz/, bench/ and tools/ are addressed from the root.
            if base or candidate.split("/")[0] in ("tests", "fuzz", "bench", "tools"):
                return candidate
    return None


def _unresolved(tree, path, line, name):
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if beside in tree:
        written = beside.removeprefix("src/").removeprefix("include/")
        return Finding(path, line, "include-form", f'"{name}" is relative to this file',
                       f'write the path from src/: "{written}"')
    return Finding(path, line, "include-form", f'"{name}" is no header of ours',
                   f"write <{name}> for a library's header, or the path from src/ for ours")


def _check_floor(path, line, name, target):
    if path.startswith("include/") and not target.startswith("include/"):
        yield Finding(path, line, "include-floor", f'the public headers expose "{name}"',
                      "include/ashlar/ includes only itself and the standard library")
    if path.startswith("examples/") and not target.startswith("include/"):
        yield Finding(path, line, "include-floor", f'an example includes "{name}"',
                      "examples/ include only include/ashlar/, as an embedder must")
    own, used = _folder_of(path), _folder_of(target)
    if own is None or used is None or own == used:
        return
    for folder in (own, used):
        if folder not in FLOORS:
            yield Finding(path, line, "include-floor", f"src/{folder}/ has no floor",
                          "give it one in tools/tidy/rule_includes.py and docs/ARCHITECTURE.md")
            return
    if FLOORS[used] >= FLOORS[own]:
        allowed = sorted(name for name, floor in FLOORS.items() if floor < FLOORS[own])
        where = "upward" if FLOORS[used] > FLOORS[own] else "sideways"
        yield Finding(path, line, "include-floor",
                      f'"{name}" reaches {where}: {own}/ is on floor {FLOORS[own]}, {used}/ on '
                      f"floor {FLOORS[used]}",
                      f"{own}/ may include itself and {', '.join(allowed) or 'nothing else'}")


def _check_order(tree, path, includes):
    """Own header, <...h>, <...>, "...": the order clang-format gives within a block."""
    if _PER_TARGET.search(tree.text(path)):
        return
    main = _main_header(tree, path)
    names = [name for _, opening, name, _ in includes if opening == '"']
    if main in names and includes[0][2] != main:
        yield Finding(path, includes[0][0], "include-order", f'"{main}" is not included first',
                      "a source includes its own header before all others, which proves that the "
                      "header needs nothing before it")
    last_group, last_run = 0, None
    for line, opening, name, run in includes:
        if name == main:
            continue
        group = 3 if opening == '"' else 1 if name.endswith(".h") else 2
        if run == last_run and group < last_group:
            yield Finding(path, line, "include-order", f"{name} comes too late",
                          "the order is: own header, <name.h> of system and libraries, <name> of the "
                          'standard library, "path.h" of ours, a blank line between the groups')
        last_group, last_run = group, run


def _main_header(tree, path):
    stem = re.sub(r"(_test)?\.(cc|cpp|h)$", "", path)
    header = stem + ".h"
    return header.removeprefix("src/") if header in tree and header != path else None


def _check_links(tree):
    """What a folder's library links must be as low as what it includes."""
    for path in tree.with_suffix("CMakeLists.txt", ("src",)):
        own = _folder_of(path)
        if own not in FLOORS:
            continue
        for number, line in enumerate(tree.lines(path), 1):
            for word in re.findall(r"\bashlar_(\w+)\b", line.split("#")[0]):
                used = next((name for name in FLOORS if re.match(rf"{name}(_|$)", word)), own)
                if used != own and FLOORS[used] >= FLOORS[own]:
                    yield Finding(path, number, "link-floor",
                                  f"{own} (floor {FLOORS[own]}) links ashlar_{word} "
                                  f"(floor {FLOORS[used]})", "a folder links only lower floors")
