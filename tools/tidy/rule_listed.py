"""Every source is built, and every test is run: each is named in a CMakeLists.txt."""

import posixpath
import re

from tree import CPP_SOURCES, Finding


def find(tree):
    return list(_unlisted(tree)) + list(_globs(tree))


def _unlisted(tree):
    sources = tree.with_suffix(CPP_SOURCES, ("src", "tests", "fuzz", "bench", "tools", "examples"))
    tests = tree.with_suffix("_test.py", ("tests", "bench", "scripts", "tools"))
    for path in sources + tests:
        lists = _lists_above(tree, path)
        if any(_is_named(tree, cmake, path) for cmake in lists):
            continue
        name = posixpath.relpath(path, posixpath.dirname(lists[0])) if lists else path
        where = lists[0] if lists else posixpath.dirname(path) + "/CMakeLists.txt"
        yield Finding(path, 1, "listed", f"this file is not built: {where} does not name it",
                      f"add {name} there, or delete the file")


def _lists_above(tree, path):
    """The CMakeLists.txt files of the folders that hold the file, nearest first."""
    found = []
    folder = posixpath.dirname(path)
    while folder:
        if folder + "/CMakeLists.txt" in tree:
            found.append(folder + "/CMakeLists.txt")
        folder = posixpath.dirname(folder)
    return found


def _is_named(tree, cmake, path):
    code = re.sub(r"#[^\n]*", "", tree.text(cmake))
    name = posixpath.relpath(path, posixpath.dirname(cmake))
    named = {name, "${CMAKE_CURRENT_SOURCE_DIR}/" + name, "${CMAKE_SOURCE_DIR}/" + path}
    return not named.isdisjoint(re.split(r'[\s()";]+', code))


def _globs(tree):
    for path in tree.with_suffix(("CMakeLists.txt", ".cmake")):
        for number, line in enumerate(tree.lines(path), 1):
            if re.search(r"file\s*\(\s*GLOB", line.split("#")[0]):
                yield Finding(path, number, "listed", "sources are collected by GLOB",
                              "name each file: a build must notice a file that comes or goes")
