"""Prebuilt llama.cpp (PyPI xllamacpp) as an oracle: files it can be asked with, and its answers."""

import json
import urllib.request

import numpy as np


def write_f32_twin(source, path, changes=None):
    """The same model with every tensor dequantised to F32.

    `changes` {key: value or None} adds unsigned keys, or leaves keys out.
    """
    from gguf import GGUFReader, GGUFValueType, GGUFWriter
    from gguf.quants import dequantize

    changes = changes or {}
    reader = GGUFReader(source)
    writer = GGUFWriter(path, reader.fields["general.architecture"].contents())
    left_out = ("general.architecture", "general.file_type", "general.quantization_version")
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in left_out and key not in changes:
            if field.contents() == []:  # refused by the writer: one merge that does nothing
                writer.add_array(key, [""])
                continue
            kind = field.types[0]
            sub_type = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), kind, sub_type=sub_type)
    for key, value in changes.items():
        if value is not None:
            writer.add_uint32(key, value)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """One loaded model."""

    def __init__(self, path, f32_cache, context=2048):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = context
        params.n_parallel = 1
        params.port = 0
        params.warmup = False
        if f32_cache:
            params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
            params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._server = xllamacpp.Server(params)

    def tokenize(self, text):
        body = json.dumps({"content": text, "add_special": False, "parse_special": True}).encode()
        request = urllib.request.Request(
            f"{self._server.listening_address}/tokenize", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            return [int(token) for token in json.load(answer)["tokens"]]

    def continue_greedily(self, ids, count):
        return [entry["id"] for entry in self._complete(ids, count, probabilities=1)]

    def log_probabilities(self, ids, vocab_size):
        """float64 [vocab] of the token after `ids`.

        llama.cpp says nothing of a token that is half a character or ends the text, so it is made
        to choose id 65; the probabilities that it reports are those before that.
        """
        (entry,) = self._complete(ids, 1, probabilities=vocab_size, logit_bias=[[65, 1000.0]])
        row = np.full(vocab_size, np.nan)
        for token in entry["top_logprobs"]:
            row[token["id"]] = token["logprob"]
        return row

    def _complete(self, ids, count, probabilities, **more):
        answer = self._server.handle_completions(
            {
                "prompt": ids,
                "n_predict": count,
                "temperature": 0,
                "cache_prompt": False,
                "n_probs": probabilities,
                **more,
            }
        )
        return answer["choices"][0]["logprobs"]["content"]
