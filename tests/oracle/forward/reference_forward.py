#!/usr/bin/env python3
"""A reference forward pass of GGUF models: numpy, float64, written for reading.

It shares nothing with the engine but the file format: tensors are read and dequantised by the
`gguf` package, and every number after that is float64. One prompt, all positions at once, no cache.

    ids [n] -> embedding rows
            -> layers x { x += attention(norm(x)); x += feed_forward(norm(x)) }
            -> norm -> output matrix -> logits [n, vocab]

What differs between families is data (reference_config.py); the parts of a layer are in
reference_attention.py and reference_feed_forward.py.

Cost: SmolLM2-135M over 4,000 tokens takes about two minutes on two cores.

    reference_forward.py MODEL.gguf 1,2,3     prints the five likeliest tokens after each position
"""

import sys

import numpy as np

from reference_attention import attention_part
from reference_config import Unsupported, read_config
from reference_feed_forward import feed_forward_part


class Model:
    """Weights of one file as float64 arrays, matrices as [out, in], stacks as [experts, out, in].

    `context` is how many positions the computation is set up for, by default as many as the file
    names; only the choice of rotation factors (Phi-3) depends on it.
    """

    def __init__(self, path, context=None):
        from gguf import GGUFReader  # only here: comparing goldens needs no gguf package

        reader = GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.metadata = {key: field.contents() for key, field in reader.fields.items()}
        self._output = None
        self.config = read_config(self.metadata, self.weight, context)
        self.vocab_size = int(self._tensors["token_embd.weight"].shape[1])

    def names(self):
        return list(self._tensors)

    def weight(self, name, optional=False, rows=None):
        """The tensor, or some rows of it, as float64; None when it is `optional` and absent."""
        from gguf.quants import dequantize

        tensor = self._tensors.get(name)
        if tensor is None:
            if optional:
                return None
            raise Unsupported(f"tensor {name} is missing")
        data = tensor.data if rows is None else tensor.data[rows]
        return np.asarray(dequantize(data, tensor.tensor_type), dtype=np.float64)

    def linear(self, x, name):
        """x times matrix `name`, plus its bias if there is one."""
        y = x @ self.weight(f"{name}.weight").T
        bias = self.weight(f"{name}.bias", optional=True)
        return y if bias is None else y + bias

    def norm(self, x, name):
        """RMSNorm, or LayerNorm where the family has it, over the last axis."""
        if self.config.family.layer_norm:
            x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.config.eps)
        x = x * self.weight(f"{name}.weight")
        return x + self.weight(f"{name}.bias") if self.config.family.layer_norm else x

    def output_weight(self):
        """[vocab, width]; tied to the embedding when the file has no output matrix."""
        if self._output is None:
            self._output = self.weight("output.weight", optional=True)
            if self._output is None:
                self._output = self.weight("token_embd.weight")
        return self._output


def embed(model, ids):
    x = model.weight("token_embd.weight", rows=ids) * model.config.embedding_scale
    if model.config.family.positions:
        x = x + model.weight("position_embd.weight")[: len(ids)]
    return x


def layer_output(model, x, layer):
    """x [n, width] -> [n, width]: what a layer makes of the residual stream."""
    family, block = model.config.family, f"blk.{layer}"
    normed = model.norm(x, f"{block}.attn_norm")
    if family.parallel:  # Falcon: both parts read the same rows, attention by a norm of its own
        of_attention = normed
        if model.weight(f"{block}.attn_norm_2.weight", optional=True) is not None:
            of_attention = model.norm(x, f"{block}.attn_norm_2")
        return x + attention_part(model, of_attention, layer) + feed_forward_part(model, normed, layer)
    y = attention_part(model, normed, layer)
    if family.sandwich:
        y = model.norm(y, f"{block}.post_attention_norm")
    x = x + y
    y = feed_forward_part(model, model.norm(x, f"{block}.{family.feed_forward_norm}"), layer)
    if family.sandwich:
        y = model.norm(y, f"{block}.post_ffw_norm")
    return x + y


def hidden_states(model, ids):
    """The final, normed hidden state of every position: float64 [n, width]."""
    x = embed(model, np.asarray(ids))
    for layer in range(model.config.layers):
        x = layer_output(model, x, layer)
    return model.norm(x, "output_norm")


def head(model, hidden):
    """float64 [n, vocab] of normed hidden states."""
    rows = hidden @ model.output_weight().T
    cap = model.config.logit_cap
    return cap * np.tanh(rows / cap) if cap else rows


def logits(model, ids):
    """float64 [n, vocab]: row i predicts the token after ids[i]."""
    return head(model, hidden_states(model, ids))


def logit_chunks(model, ids, rows=256):
    """As logits(), in pieces: yields (first position, float64 [<= rows, vocab])."""
    hidden = hidden_states(model, ids)
    for begin in range(0, len(hidden), rows):
        yield begin, head(model, hidden[begin : begin + rows])


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: reference_forward.py MODEL.gguf ID,ID,...")
    ids = [int(word) for word in sys.argv[2].split(",")]
    for position, row in enumerate(logits(Model(sys.argv[1]), ids)):
        best = np.argsort(-row)[:5]
        print(
            position, ids[position], "->", " ".join(f"{token}:{row[token]:.4f}" for token in best)
        )


if __name__ == "__main__":
    main()
