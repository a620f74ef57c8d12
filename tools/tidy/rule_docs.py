"""READMEs, links, words and addresses."""

import posixpath
import re

from tree import CODE, TEXT, Finding

# The rules' own files name what they forbid.
_EXEMPT = "tools/tidy/"

_MARKED_TODO = re.compile(r"\bTODO\([^)]+\): \S+")
_TODO = re.compile(r"\bTODO\b")
_BAD_MARK = re.compile(r"\b(FIXME|XXX|HACK)\b")
_PRIVATE_PATH = re.compile(r"(?<![\w.}])/(?:home|root|Users)/[\w.-]+")
_ADDRESS = re.compile(r"\b(?:https?|ftp)://([\w.-]+)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s#]+)[^)]*\)")
_LOOPBACK = ("127.0.0.1", "localhost", "0.0.0.0")
_BUILD_PLACES = ("Makefile", "CMakeLists.txt", "scripts/", "cmake/", ".ci/")
_FOLDERS_WITH_README = ("scripts", "cmake", "docs", "tests", "fuzz", "bench", "tools")


def find(tree):
    findings = list(_readmes(tree))
    for path in tree.paths:
        if path.startswith(_EXEMPT):
            continue
        if path.endswith(CODE) or path.endswith(("CMakeLists.txt", "Makefile")):
            findings += _marks(path, tree.lines(path))
        if path.endswith(TEXT) or path.startswith(_BUILD_PLACES):
            findings += _private_paths(path, tree.lines(path))
        if path.startswith(_BUILD_PLACES) or path.endswith("CMakeLists.txt"):
            findings += _addresses(path, tree.lines(path))
        if path.endswith(".md"):
            findings += _links(tree, path)
    return findings


def _readmes(tree):
    top = {path.split("/")[0] for path in tree.paths if "/" in path}
    folders = [f"src/{name}" for name in tree.folders("src")]
    folders += [name for name in _FOLDERS_WITH_README if name in top]
    for folder in folders:
        if f"{folder}/README.md" not in tree:
            yield Finding(f"{folder}/README.md", 1, "readme", f"{folder}/ has no README.md",
                          "say what goes in, what comes out, what always holds, and where code goes")


def _marks(path, lines):
    for number, line in enumerate(lines, 1):
        bad = _BAD_MARK.search(line)
        if bad:
            yield Finding(path, number, "marks", f"{bad.group()} says no reason",
                          "mend it now, or write TODO(what it waits for): what to do")
        elif _TODO.search(line) and not _MARKED_TODO.search(line):
            yield Finding(path, number, "marks", "a TODO without its reason",
                          "write TODO(what it waits for): what to do")


def _private_paths(path, lines):
    for number, line in enumerate(lines, 1):
        found = _PRIVATE_PATH.search(line)
        if found:
            yield Finding(path, number, "private-path",
                          f"{found.group()} is a path of somebody's machine",
                          "take the path from a flag or from $HOME, or write ~/")


def _addresses(path, lines):
    for number, line in enumerate(lines, 1):
        for host in _ADDRESS.findall(line):
            if host not in _LOOPBACK:
                yield Finding(path, number, "address", f"the build names the host {host}",
                              "fetch by apt or pip, which know their hosts and the user's mirrors")


def _links(tree, path):
    for number, line in enumerate(tree.lines(path), 1):
        for target in _LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if not (tree.root / resolved).exists():
                yield Finding(path, number, "link", f"the link leads to {resolved}, which is not there",
                              "mend the link or delete it")
