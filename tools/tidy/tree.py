"""The project's files as the rules see them, and what a rule reports."""

import dataclasses
import os
import pathlib
import re

SKIPPED_FOLDERS = {".git", ".cache", "build", "__pycache__", ".venv", "node_modules"}
CPP_SOURCES = (".cc", ".cpp")
CODE = CPP_SOURCES + (".h", ".py", ".sh", ".cmake")
TEXT = CODE + (".md", ".txt", ".json", ".yml", ".yaml")
# Folders of code beside src/.
OUTER_CODE = ("tests", "fuzz", "bench", "tools", "include", "examples")


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """One broken rule: where, which rule, what is wrong, what would be right."""

    path: str
    line: int
    rule: str
    wrong: str
    right: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.wrong}; {self.right}"


class Tree:
    """Files below a root, by their path with '/' from the root. Read once, never written."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.paths = []
        self._texts = {}
        for folder, subfolders, names in os.walk(self.root):
            subfolders[:] = sorted(set(subfolders) - SKIPPED_FOLDERS)
            relative = pathlib.Path(folder).relative_to(self.root)
            self.paths += [(relative / name).as_posix() for name in sorted(names)]
        self._set = set(self.paths)

    def __contains__(self, path):
        return path in self._set

    def text(self, path):
        if path not in self._texts:
            data = (self.root / path).read_bytes()
            self._texts[path] = data.decode("utf-8", errors="replace")
        return self._texts[path]

    def lines(self, path):
        return self.text(path).splitlines()

    def with_suffix(self, suffixes, folders=None):
        """Paths that end so, in these top-level folders (all of them by default)."""
        return [
            path
            for path in self.paths
            if path.endswith(suffixes) and (folders is None or path.split("/")[0] in folders)
        ]

    def cpp(self):
        """All C++ files of ours."""
        return self.with_suffix(CPP_SOURCES + (".h",), ("src",) + OUTER_CODE)

    def folders(self, parent):
        """Names of the folders in `parent` that hold any file."""
        start = parent + "/"
        inner = [path[len(start) :] for path in self.paths if path.startswith(start)]
        return sorted({path.split("/")[0] for path in inner if "/" in path})


_COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*                                  # line comment
      | /\*.*?\*/                                 # block comment
      | R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'       # a character, not a digit separator
    """,
    re.VERBOSE | re.DOTALL,
)


def blank_comments_and_literals(text):
    """C++ text with comments and literals turned to blanks; lines and columns keep their places."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    return _COMMENT_OR_LITERAL.sub(blank, text)
