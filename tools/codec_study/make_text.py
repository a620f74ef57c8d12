#!/usr/bin/env python3
"""make_text.py OUT JARGON: the text that KV codecs are measured on, the same bytes everywhere.

English of two kinds, from Debian packages (both in the public domain): passages of the King James
Bible (bible-kjv, bible-kjv-text) and of the Jargon File (jargon-text: JARGON is its jargon.txt.gz),
in turn. Each begins at a paragraph; the places are spread evenly over the books, and away from their
well-known beginnings.
"""

import gzip
import re
import subprocess
import sys
from pathlib import Path

PASSAGES = 4  # of each book
PASSAGE_CHARACTERS = 10_000  # a window of 2,048 tokens is 7,000 to 9,000


def bible():
    """One line a verse, an empty line before each chapter."""
    output = subprocess.run(
        ["bible"], input="gen1:1-rev22:21\n", capture_output=True, text=True, check=True
    ).stdout
    # Between the prompt that echoes the question and the next prompt.
    answer = output.split("> gen1:1-rev22:21\n", 1)[1].rsplit("\nbible(", 1)[0]
    lines = [""]
    for line in answer.splitlines():
        verse = re.match(r" *\d+ (.*)", line)
        if verse:
            lines.append(verse[1])
        elif line and lines[-1]:
            lines[-1] += " " + line  # verses are wrapped
        else:
            lines.append(line)  # a chapter's name stands between empty lines
    return "\n".join(lines)


def jargon(path):
    """Without the indentation of all its lines."""
    text = gzip.open(path, "rt", encoding="utf-8").read()
    return re.sub(r"^   ", "", text, flags=re.MULTILINE)


def passages(text):
    """PASSAGES pieces from the middle of as many equal parts of the text."""
    for number in range(PASSAGES):
        at = len(text) * (2 * number + 1) // (2 * PASSAGES)
        start = text.index("\n\n", at) + 2
        yield text[start : start + PASSAGE_CHARACTERS].strip() + "\n\n"


def main():
    out, jargon_file = sys.argv[1:]
    books = (bible(), jargon(jargon_file))
    text = "".join(piece for pair in zip(*map(passages, books)) for piece in pair)
    Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
