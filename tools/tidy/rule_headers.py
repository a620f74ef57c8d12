"""Headers: guarded by #pragma once, and compiling with nothing before them.

A header that some source includes before all else is proven by the build; the others are compiled here.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

from tree import Finding

_COMPILER = re.compile(r"(?:^|/)(?:[\w-]+-)?(?:c\+\+|g\+\+|clang\+\+)(?:-[\d.]+)?$")
_TIMEOUT_S = 120


def find(tree, build_dir):
    headers = tree.with_suffix(".h", ("src", "include", "tests", "fuzz", "bench", "tools"))
    findings = [
        Finding(path, 1, "pragma-once", "the header has no #pragma once",
                "put it after the opening comment")
        for path in headers
        if not re.search(r"^#pragma once$", tree.text(path), re.MULTILINE)
        and not _is_per_target(tree, path)
    ]
    proven = _included_first(tree)
    unproven = [path for path in headers if _include_name(path) not in proven]
    return findings + _check_self_contained(tree, unproven, build_dir)


def _include_name(path):
    return re.sub(r"^(src|include)/", "", path)


def _included_first(tree):
    """What the listed sources include before anything else."""
    first = (re.search(r'^#include [<"]([^>"]+)[>"]', tree.text(path), re.MULTILINE)
             for path in tree.with_suffix(".cc", ("src",)))
    return {match.group(1) for match in first if match}


def _is_per_target(tree, path):
    """Highway's -inl.h headers are meant to be included once for each instruction set."""
    return path.endswith("-inl.h") and "HWY_TARGET_TOGGLE" in tree.text(path)


def _check_self_contained(tree, headers, build_dir):
    if build_dir is None:
        return []
    database = pathlib.Path(build_dir) / "compile_commands.json"
    if not database.is_file():
        return [Finding("CMakeLists.txt", 1, "self-contained", f"there is no {database}",
                        "configure first: cmake --preset release")]
    flags = _Flags(tree.root, json.loads(database.read_text()))
    cache = _Cache(tree.root, pathlib.Path(build_dir) / "tidy_headers.json")
    jobs = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        errors = list(pool.map(lambda path: _compile(tree, path, flags, cache), headers))
    cache.save()
    return [
        Finding(path, 1, "self-contained", f"the header does not compile alone ({error})",
                "include what it uses, or declare it")
        for path, error in zip(headers, errors)
        if error
    ]


class _Flags:
    """The compile flags of a file's neighbours: a header has none of its own."""

    def __init__(self, root, database):
        self._by_folder = {}
        for entry in sorted(database, key=lambda entry: entry["file"]):
            words = entry.get("arguments") or shlex.split(entry["command"])
            folder = os.path.relpath(os.path.dirname(entry["file"]), root)
            self._by_folder.setdefault(folder, _syntax_only(words, entry["file"]))

    def of(self, path):
        folder = os.path.dirname(path)
        while True:
            inside = [name for name in self._by_folder
                      if name == folder or name.startswith(folder + "/") or not folder]
            if inside:
                return self._by_folder[min(inside, key=lambda name: (len(name), name))]
            if not folder:
                return None
            folder = os.path.dirname(folder)


def _syntax_only(words, source):
    """A compile command without its launcher, source, outputs and warnings."""
    start = next((i for i, word in enumerate(words) if _COMPILER.search(word)), 0)
    kept, skip = [], False
    for word in words[start:]:
        if skip:
            skip = False
        elif word in ("-o", "-MT", "-MF", "-MQ"):
            skip = True
        elif word != source and word not in ("-c", "-MD", "-MMD") and not word.startswith("-W"):
            kept.append(word)
    return kept + ["-w", "-fsyntax-only"]


def _compile(tree, path, flags, cache):
    """The first error of compiling the header alone, twice in a row; None when it compiles."""
    command = flags.of(path)
    if command is None or cache.is_good(path, command):
        return None
    name = _include_name(path)
    with tempfile.TemporaryDirectory() as folder:
        depends = os.path.join(folder, "depends")
        result = subprocess.run(
            command + ["-I", str(tree.root), "-I", str(tree.root / "include"), "-MMD", "-MF", depends, "-MT", "x", "-x", "c++", "-"],
            input=f'#include "{name}"\n#include "{name}"\n', cwd=tree.root, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False)
        if result.returncode == 0:
            cache.add(path, command, _dependencies(tree.root, depends))
            return None
    errors = [line for line in result.stdout.splitlines() if "error" in line]
    return (errors or result.stdout.splitlines() or ["no message"])[0].strip()


def _dependencies(root, depends):
    """The headers of ours that were read, by the compiler's account."""
    words = pathlib.Path(depends).read_text().replace("\\\n", " ").split()[1:]
    paths = {os.path.relpath(os.path.join(root, word), root) for word in words}
    return sorted(path for path in paths if not path.startswith(".."))


class _Cache:
    """Headers known to compile: with this command, and these contents of all they include."""

    def __init__(self, root, path):
        self._root = root
        self._path = path
        self._digests = {}
        try:
            self._good = json.loads(path.read_text())
        except (OSError, ValueError):
            self._good = {}

    def is_good(self, header, command):
        entry = self._good.get(header)
        return bool(entry) and entry["command"] == command and all(
            self._digest(path) == digest for path, digest in entry["files"].items())

    def add(self, header, command, files):
        self._good[header] = {"command": command,
                              "files": {path: self._digest(path) for path in files}}

    def save(self):
        self._path.write_text(json.dumps(self._good, indent=1))

    def _digest(self, path):
        if path not in self._digests:
            try:
                data = (self._root / path).read_bytes()
            except OSError:
                data = b""
            self._digests[path] = hashlib.sha256(data).hexdigest()
        return self._digests[path]
