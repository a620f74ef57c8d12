"""Hugging Face's tokenizers library with a GGUF file's vocabulary and the pre-tokenizers of the original
tokenizer.json files: an oracle for byte-level BPE that shares no code with llama.cpp."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

import gguf_vocabulary

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def _split(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _digits_then_gpt2():
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


_PRE_TOKENIZERS = {
    "gpt-2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    "llama-bpe": lambda: _split(_LLAMA3),
    "qwen2": lambda: _split(_QWEN2),
    "smollm": _digits_then_gpt2,
    "starcoder": _digits_then_gpt2,
    "refact": _digits_then_gpt2,
}


class HfOracle:
    name = "tokenizers"

    def __init__(self, model):
        vocabulary = gguf_vocabulary.Vocabulary(model)
        ids = {token: i for i, token in enumerate(vocabulary.tokens)}
        merges = [tuple(merge.split(" ")) for merge in vocabulary.merges]
        tokenizer = Tokenizer(
            BPE(vocab=ids, merges=merges, ignore_merges=vocabulary.pre == "llama-bpe")
        )
        tokenizer.pre_tokenizer = _PRE_TOKENIZERS[vocabulary.pre]()
        tokenizer.decoder = decoders.ByteLevel()
        specials = vocabulary.ids_of_type(gguf_vocabulary.CONTROL)
        added = vocabulary.ids_of_type(gguf_vocabulary.USER_DEFINED)
        self._plain = Tokenizer.from_str(tokenizer.to_str())
        self._plain.add_tokens([AddedToken(vocabulary.tokens[i], normalized=False) for i in added])
        tokenizer.add_special_tokens(
            [AddedToken(vocabulary.tokens[i], normalized=False) for i in specials]
        )
        tokenizer.add_tokens([AddedToken(vocabulary.tokens[i], normalized=False) for i in added])
        self._special = tokenizer
        self._prefix = [vocabulary.bos] if vocabulary.adds_bos else []

    def encode(self, text, special):
        tokenizer = self._special if special else self._plain
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        return self._prefix + ids if special else ids
