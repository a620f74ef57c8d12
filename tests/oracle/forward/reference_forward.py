#!/usr/bin/env python3
"""A reference forward pass of Llama-family GGUF models: numpy, float64, written for reading.

It shares nothing with the engine but the file format: tensors are read and dequantised by the
`gguf` package, and every number after that is float64. One prompt, all positions at once, no cache.

    ids [n] -> embedding rows
            -> layers x { x += Wo attention(RoPE(Wq norm(x)), RoPE(Wk norm(x)), Wv norm(x))
                          x += Wdown (silu(Wgate norm(x)) * (Wup norm(x))) }
            -> norm -> output matrix -> logits [n, vocab]

Cost: SmolLM2-135M over 4,000 tokens takes about two minutes on two cores.

    reference_forward.py MODEL.gguf 1,2,3     prints the five likeliest tokens after each position
"""

import math
import sys
from dataclasses import dataclass

import numpy as np

# Architectures by the way their files store Q and K for rotation: pairs (2i, 2i+1), or halves
# (i, i + d/2).
INTERLEAVED = {"llama"}
HALF_SPLIT = {"qwen2"}

QUERY_CHUNK = 512  # query rows whose attention scores exist at one time


class Unsupported(Exception):
    """The file asks for something this reference does not compute."""


@dataclass
class Config:
    """The geometry and constants of one model, from the file's metadata."""

    arch: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    rms_eps: float
    inv_freq: np.ndarray  # [rotated channels / 2] radians per position
    rope_magnitude: float  # multiplies cosine and sine (YaRN); else 1


class Model:
    """Weights of one file as float64 arrays, matrices as [out, in]."""

    def __init__(self, path):
        from gguf import GGUFReader  # only here: comparing goldens needs no gguf package

        reader = GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._metadata = {key: field.contents() for key, field in reader.fields.items()}
        self._output = None
        self.config = self._read_config()
        self.vocab_size = int(self._tensors["token_embd.weight"].shape[1])

    def weight(self, name, optional=False):
        """The tensor dequantised to float64, or None when it is `optional` and absent."""
        from gguf.quants import dequantize

        tensor = self._tensors.get(name)
        if tensor is None:
            if optional:
                return None
            raise Unsupported(f"tensor {name} is missing")
        return np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float64)

    def output_weight(self):
        """[vocab, width]; tied to the embedding when the file has no output matrix."""
        if self._output is None:
            self._output = self.weight("output.weight", optional=True)
            if self._output is None:
                self._output = self.weight("token_embd.weight")
        return self._output

    def _read_config(self):
        arch = self._metadata["general.architecture"]
        if arch not in INTERLEAVED | HALF_SPLIT:
            raise Unsupported(f"architecture {arch}; known: {sorted(INTERLEAVED | HALF_SPLIT)}")

        def get(key, default=None):
            value = self._metadata.get(f"{arch}.{key}", default)
            if value is None:
                raise Unsupported(f"metadata {arch}.{key} is missing")
            return value

        width, heads = get("embedding_length"), get("attention.head_count")
        head_dim = get("attention.key_length", width // heads)
        inv_freq, magnitude = self._rope(get, get("rope.dimension_count", head_dim))
        return Config(
            arch=arch,
            layers=get("block_count"),
            width=width,
            heads=heads,
            kv_heads=get("attention.head_count_kv", heads),
            head_dim=head_dim,
            rms_eps=get("attention.layer_norm_rms_epsilon"),
            inv_freq=inv_freq,
            rope_magnitude=magnitude,
        )

    def _rope(self, get, dims):
        """(radians per position of each pair, magnitude) after the file's scaling."""
        base = get("rope.freq_base", 10000.0)
        pairs = np.arange(dims // 2, dtype=np.float64)
        inv_freq = base ** (-2.0 * pairs / dims)
        # Llama 3's scaling is stored as one divisor per pair, worked out by whoever made the file.
        divisors = self.weight("rope_freqs.weight", optional=True)
        if divisors is not None:
            inv_freq = inv_freq / divisors
        kind = get("rope.scaling.type", "linear")
        factor = get("rope.scaling.factor", get("rope.scale_linear", 0.0)) or 1.0
        magnitude = get("rope.scaling.attn_factor", 1.0)
        if kind == "none":
            return inv_freq, magnitude
        if kind == "linear":
            return inv_freq / factor, magnitude
        if kind != "yarn":
            raise Unsupported(f"rope scaling {kind}")
        # YaRN (Peng et al. 2023): pairs that turn more than beta_fast times over the original
        # context keep their frequency, those that turn less than beta_slow times are interpolated,
        # a ramp in between.
        context = get("rope.scaling.original_context_length", get("context_length"))
        beta_fast = get("rope.scaling.yarn_beta_fast", 32.0)
        beta_slow = get("rope.scaling.yarn_beta_slow", 1.0)

        def pair_turning(turns):
            return dims * math.log(context / (turns * 2.0 * math.pi)) / (2.0 * math.log(base))

        low = max(0.0, math.floor(pair_turning(beta_fast)))
        high = min(dims - 1.0, math.ceil(pair_turning(beta_slow)))
        interpolated = np.clip((pairs - low) / max(0.001, high - low), 0.0, 1.0)
        inv_freq = inv_freq * (1.0 - interpolated) + inv_freq / factor * interpolated
        return inv_freq, magnitude * (1.0 + 0.1 * math.log(factor))


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotate(x, cosine, sine, interleaved):
    """x [n, heads, head_dim] with its first channels rotated; cosine, sine [n, those / 2]."""
    cosine, sine = cosine[:, None, :], sine[:, None, :]
    pairs = cosine.shape[-1]
    if interleaved:
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    else:
        first, second = slice(0, pairs), slice(pairs, 2 * pairs)
    out = x.copy()
    a, b = x[..., first], x[..., second]
    out[..., first] = a * cosine - b * sine
    out[..., second] = a * sine + b * cosine
    return out


def attention(q, k, v):
    """Causal attention. q [n, heads, d], k and v [n, kv_heads, d] -> [n, heads * d]."""
    n, heads, head_dim = q.shape
    group = heads // k.shape[1]
    out = np.empty_like(q)
    for head in range(heads):
        keys, values = k[:, head // group], v[:, head // group]
        for begin in range(0, n, QUERY_CHUNK):
            end = min(n, begin + QUERY_CHUNK)
            scores = q[begin:end, head] @ keys[:end].T / math.sqrt(head_dim)
            future = np.arange(end)[None, :] > np.arange(begin, end)[:, None]
            scores[future] = -np.inf
            scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            out[begin:end, head] = scores @ values[:end] / scores.sum(axis=1, keepdims=True)
    return out.reshape(n, heads * head_dim)


def silu(x):
    return x / (1.0 + np.exp(-x))


def linear(model, x, name):
    y = x @ model.weight(f"{name}.weight").T
    bias = model.weight(f"{name}.bias", optional=True)
    return y if bias is None else y + bias


def hidden_states(model, ids):
    """The final, normed hidden state of every position: float64 [n, width]."""
    config = model.config
    ids = np.asarray(ids)
    angles = np.arange(len(ids), dtype=np.float64)[:, None] * config.inv_freq[None, :]
    cosine, sine = np.cos(angles) * config.rope_magnitude, np.sin(angles) * config.rope_magnitude
    interleaved = config.arch in INTERLEAVED

    x = model.weight("token_embd.weight")[ids]
    for layer in range(config.layers):
        block = f"blk.{layer}"
        h = rms_norm(x, model.weight(f"{block}.attn_norm.weight"), config.rms_eps)
        q = linear(model, h, f"{block}.attn_q").reshape(len(ids), config.heads, config.head_dim)
        k = linear(model, h, f"{block}.attn_k").reshape(len(ids), config.kv_heads, config.head_dim)
        v = linear(model, h, f"{block}.attn_v").reshape(len(ids), config.kv_heads, config.head_dim)
        q, k = rotate(q, cosine, sine, interleaved), rotate(k, cosine, sine, interleaved)
        x = x + linear(model, attention(q, k, v), f"{block}.attn_output")
        h = rms_norm(x, model.weight(f"{block}.ffn_norm.weight"), config.rms_eps)
        gated = silu(linear(model, h, f"{block}.ffn_gate")) * linear(model, h, f"{block}.ffn_up")
        x = x + linear(model, gated, f"{block}.ffn_down")
    return rms_norm(x, model.weight("output_norm.weight"), config.rms_eps)


def logits(model, ids):
    """float64 [n, vocab]: row i predicts the token after ids[i]."""
    return hidden_states(model, ids) @ model.output_weight().T


def logit_chunks(model, ids, rows=256):
    """As logits(), in pieces: yields (first position, float64 [<= rows, vocab])."""
    hidden = hidden_states(model, ids)
    for begin in range(0, len(hidden), rows):
        yield begin, hidden[begin : begin + rows] @ model.output_weight().T


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
