"""Files and functions stay small enough to be read in one go."""

import ast
import re

from tree import CPP_SOURCES, Finding, blank_comments_and_literals

MAX_FILE_LINES = 500
MAX_HEADER_LINES = 300
MAX_EXCUSED_FILE_LINES = 800
MAX_FUNCTION_LINES = 70
MAX_EXCUSED_FUNCTION_LINES = 120

_EXCUSE = re.compile(r"(?://|#)\s*Oversize:\s*\S+")


def find(tree):
    findings = []
    for path in tree.with_suffix(CPP_SOURCES + (".h", ".py", ".sh")):
        lines = tree.lines(path)
        findings += _check_file(path, lines)
        findings += _check_functions(path, lines, tree.text(path))
    return findings


def _check_file(path, lines):
    limit = MAX_HEADER_LINES if path.endswith(".h") else MAX_FILE_LINES
    # The excuse of a file stands among its first lines; further down it is a function's.
    excused = any(_EXCUSE.search(line) for line in lines[:20])
    allowed = MAX_EXCUSED_FILE_LINES if excused else limit
    if len(lines) > allowed:
        mark = "#" if path.endswith((".py", ".sh")) else "//"
        right = "split it by what its parts are about"
        if not excused:
            right += (f", or say why not in its first lines: '{mark} Oversize: reason' (then up to "
                      f"{MAX_EXCUSED_FILE_LINES})")
        yield Finding(path, allowed + 1, "file-size",
                      f"the file has {len(lines)} lines, {allowed} are allowed", right)


def _check_functions(path, lines, text):
    if path.endswith(".py"):
        functions = _python_functions(text)
    elif path.endswith(".sh"):
        functions = _shell_functions(lines)
    else:
        functions = cpp_functions(text)
    for name, first, last in functions:
        # The excuse stands inside, or on the line above.
        excused = any(_EXCUSE.search(line) for line in lines[max(0, first - 2) : last])
        allowed = MAX_EXCUSED_FUNCTION_LINES if excused else MAX_FUNCTION_LINES
        if last - first + 1 > allowed:
            yield Finding(path, first, "function-size",
                          f"{name} has {last - first + 1} lines, {allowed} are allowed",
                          "split it by the steps it takes")


def _python_functions(text):
    try:
        nodes = ast.walk(ast.parse(text))
    except SyntaxError:
        return
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def _shell_functions(lines):
    name, first = None, 0
    for number, line in enumerate(lines, 1):
        start = re.match(r"^(\w+)\(\)\s*\{\s*$", line)
        if start:
            name, first = start.group(1), number
        elif name and line == "}":
            yield name, first, number
            name = None


_TYPE_HEAD = re.compile(r"\b(?:class|struct|union|enum)\b[^()=;]*$")
_NAMESPACE_HEAD = re.compile(r"(?:\bnamespace\b[\w\s:\[\]]*|\bextern\s*)$")
_LABEL = re.compile(r"^\s*(?:public|private|protected)\s*:")


def cpp_functions(text):
    """Yields (name, first line, last line) of each function defined in a namespace or a type.

    Reads braces, not C++: good for code in this project's format. Lambdas and local types count as
    parts of the function around them.
    """
    code = _without_directives(blank_comments_and_literals(text))
    head_start, position = 0, 0
    while position < len(code):
        char = code[position]
        if char in ";}":
            head_start = position + 1
        elif char == "{":
            head, head_start = _skip_labels(code, head_start, position)
            if not (_NAMESPACE_HEAD.search(head) or _TYPE_HEAD.search(head)):
                end = _end_of_braces(code, position)
                while "(" in head and re.match(r"\s*[,{]", code[end:]):
                    # That was a member initialised in braces; the body follows.
                    end = _end_of_braces(code, code.index("{", end))
                if "(" in head:
                    yield (_name_of(head), _line_of(code, _first_char(code, head_start)),
                           _line_of(code, end - 1))
                position = end - 1
            head_start = position + 1
        position += 1


def _skip_labels(code, start, end):
    label = _LABEL.match(code[start:end])
    while label:
        start += label.end()
        label = _LABEL.match(code[start:end])
    return code[start:end], start


def _end_of_braces(code, position):
    depth = 0
    for index in range(position, len(code)):
        if code[index] == "{":
            depth += 1
        elif code[index] == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(code)


def _without_directives(code):
    """Blanks preprocessor lines, and the code of #else and #elif branches, so that braces match."""
    out, depth_skipped, stack, continued = [], 0, [], False
    for line in code.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line)
        if directive and not continued:
            word = directive.group(1)
            if word.startswith("if"):
                stack.append(False)
            elif word in ("else", "elif") and stack:
                depth_skipped += not stack[-1]
                stack[-1] = True
            elif word == "endif" and stack:
                depth_skipped -= stack.pop()
        hidden = bool(directive) or continued or depth_skipped > 0
        continued = (bool(directive) or continued) and line.endswith("\\")
        out.append(" " * len(line) if hidden else line)
    return "\n".join(out)


def _first_char(code, start):
    return start + len(code[start:]) - len(code[start:].lstrip())


def _line_of(code, position):
    return code.count("\n", 0, position) + 1


def _name_of(head):
    name = re.search(r"([\w:~]+|operator\s*\S+)\s*\(", head)
    return name.group(1) if name else "a function"
