"""Runs the `ashlar` program as a script would: arguments in, exit code, stdout and files out."""

import argparse
import json
import os
import subprocess
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_BINARY = REPOSITORY / "build/release/bin/ashlar"
# Models that scripts/fetch_model.sh keeps, by the names it knows them by.
MODEL_FILES = {
    "smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "gemma3": "gemma-3-270m-q4_k_m.gguf",
}
TIMEOUT_S = 600


class ProgramFailed(Exception):
    pass


@dataclass
class Outcome:
    code: int
    stdout: str
    stderr: str


def cached_model(name):
    """Where scripts/fetch_model.sh puts it; $ASHLAR_TEST_MODEL overrides the default model."""
    override = os.environ.get("ASHLAR_TEST_MODEL") if name == "smollm2" else None
    if override:
        return Path(override)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "ashlar" / MODEL_FILES[name]


def add_arguments(parser):
    parser.add_argument("--binary", default=str(DEFAULT_BINARY), help="the ashlar program")
    parser.add_argument(
        "--model", default=str(cached_model("smollm2")), help="the default model's GGUF file"
    )


def parser(description):
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(made)
    return made


class Ashlar:
    """One binary. `flags` are added to every command of `run`."""

    def __init__(self, binary, flags=()):
        self.binary = str(binary)
        self.flags = list(flags)

    def call(self, *arguments, timeout_s=TIMEOUT_S, stdin=None):
        """Any command line; never raises for a failing exit code."""
        done = subprocess.run(
            [self.binary, *map(str, arguments)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def run_json(self, model, ids, *arguments, timeout_s=TIMEOUT_S):
        """`ashlar run --json` on a prompt of token ids: the parsed object."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump([int(token) for token in ids], file)
            file.flush()
            command = [
                "run",
                "--json",
                "--model",
                model,
                "--prompt-ids",
                file.name,
                *self.flags,
                *arguments,
            ]
            outcome = self.call(*command, timeout_s=timeout_s)
        if outcome.code != 0:
            raise ProgramFailed(
                f"{' '.join(map(str, command))}: exit code {outcome.code}\n{outcome.stderr}"
            )
        return json.loads(outcome.stdout)

    def write_logits(self, model, ids, path, *arguments, max_tokens=0):
        """Greedy run that writes the logits of every position to `path`; returns run's JSON."""
        return self.run_json(
            model,
            ids,
            "--temperature",
            "0",
            "--max-tokens",
            max_tokens,
            "--logits-out",
            path,
            *arguments,
        )


class AshlarTest(unittest.TestCase):
    """Tests of the program `binary`, which main() sets: `self.ashlar`, and a folder of each test's own."""

    binary = DEFAULT_BINARY

    def setUp(self):
        self.ashlar = Ashlar(self.binary)
        folder = tempfile.TemporaryDirectory(prefix="ashlar-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


def map_logits(path, vocab_size):
    """Read-only f32 [rows, vocab] over a file of --logits-out."""
    size = os.path.getsize(path)
    if size == 0 or size % (4 * vocab_size) != 0:
        raise ProgramFailed(
            f"{path} has {size} bytes: not a whole number of rows of {vocab_size} f32"
        )
    return np.memmap(path, dtype="<f4", mode="r", shape=(size // (4 * vocab_size), vocab_size))
