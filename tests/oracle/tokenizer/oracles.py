"""The families we test, and the oracles each has."""

import os
import subprocess

import gguf_vocabulary
from hf_oracle import HfOracle
from llama_cpp_oracle import LlamaCppOracle
from sentencepiece_oracle import SentencePieceOracle

# Family: the file that carries its vocabulary, in the cache folder.
FAMILIES = {
    "smollm": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "gpt-2": "vocabs/ggml-vocab-gpt-2.gguf",
    "llama-bpe": "vocabs/ggml-vocab-llama-bpe.gguf",
    "qwen2": "vocabs/ggml-vocab-qwen2.gguf",
    "llama-spm": "vocabs/ggml-vocab-llama-spm.gguf",
    "phi-3": "vocabs/ggml-vocab-phi-3.gguf",
    "gemma": "gemma-3-270m-q4_k_m.gguf",
}


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ashlar")


def model_path(family):
    return os.path.join(cache_folder(), FAMILIES[family])


def oracles_for(model, libllama):
    """[(oracle, takes special cases)], the one whose word counts for plain texts first."""
    byte_level = gguf_vocabulary.Vocabulary(model).model == "gpt2"
    independent = (HfOracle(model), True) if byte_level else (SentencePieceOracle(model), False)
    return [independent, (LlamaCppOracle(libllama, model), True)]


class Ashlar:
    """Our tokenizer, through the test program tokenize_lines."""

    name = "ashlar"

    def __init__(self, program, model):
        self._process = subprocess.Popen(
            [program, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"tokenize_lines ended at {line[:200]!r}")
        return answer.strip()

    def encode(self, text, special):
        data = text if isinstance(text, bytes) else text.encode()
        return [int(i) for i in self._ask(f"e{int(special)} {data.hex()}").split()]

    def decode(self, ids):
        return bytes.fromhex(self._ask("d " + " ".join(map(str, ids))))
