"""The tokenizer part of a GGUF file, as plain Python values."""

import gguf

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


class Vocabulary:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)

        def value(key, default=None):
            field = reader.fields.get(f"tokenizer.ggml.{key}")
            return default if field is None else field.contents()

        self.model = value("model")
        self.pre = value("pre", "default")
        self.tokens = value("tokens")
        self.types = value("token_type")
        self.scores = value("scores")
        self.merges = value("merges")
        self.bos = value("bos_token_id")
        self.unknown = value("unknown_token_id")
        self.adds_bos = value("add_bos_token", self.pre == "llama-bpe" or self.model == "llama")
        self.adds_space_prefix = value("add_space_prefix", self.model == "llama")

    def ids_of_type(self, *types):
        return [i for i, t in enumerate(self.types) if t in types]
