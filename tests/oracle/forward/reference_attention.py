"""Attention of the reference: what a layer adds to each position from those before it."""

import numpy as np

QUERY_CHUNK = 512  # query rows whose attention scores exist at one time


def attention_part(model, h, layer):
    """h [n, width], normed -> [n, width]."""
    config, block = model.config, f"blk.{layer}"
    project = project_latent if config.latent else project_heads
    q, k, v = project(model, h, layer)
    mixed = attention(
        q,
        k,
        v,
        scale=config.attention_scale,
        window=config.windows[layer],
        cap=config.attention_cap,
        sinks=model.weight(f"{block}.attn_sinks.weight", optional=True),
    )
    return model.linear(mixed, f"{block}.attn_output")


def project_heads(model, h, layer):
    """q [n, heads, d], k and v [n, kv_heads, d], rotated."""
    config, block, n = model.config, f"blk.{layer}", len(h)
    if model.weight(f"{block}.attn_qkv.weight", optional=True) is not None:
        rows = [config.heads * config.head_dim, config.kv_heads * config.head_dim]
        q, k, v = np.split(model.linear(h, f"{block}.attn_qkv"), np.cumsum(rows), axis=1)
    else:
        q, k, v = (model.linear(h, f"{block}.attn_{part}") for part in "qkv")
    q, k, v = (x.reshape(n, -1, config.head_dim) for x in (q, k, v))
    if model.weight(f"{block}.attn_q_norm.weight", optional=True) is not None:
        q, k = model.norm(q, f"{block}.attn_q_norm"), model.norm(k, f"{block}.attn_k_norm")
    return turn(model, q, layer), turn(model, k, layer), v


def project_latent(model, h, layer):
    """As project_heads, of DeepSeek-V2's latents: here every head's keys and values are expanded.

    A key is [plain channels of its head, rotated channels that all heads share].
    """
    config, block, n = model.config, f"blk.{layer}", len(h)
    latent = config.latent
    if model.weight(f"{block}.attn_q.weight", optional=True) is not None:
        q = model.linear(h, f"{block}.attn_q")
    else:
        q = model.norm(model.linear(h, f"{block}.attn_q_a"), f"{block}.attn_q_a_norm")
        q = model.linear(q, f"{block}.attn_q_b")
    q_plain, q_turned = np.split(q.reshape(n, config.heads, -1), [latent.plain_dim], axis=2)
    row, k_turned = np.split(model.linear(h, f"{block}.attn_kv_a_mqa"), [latent.rank], axis=1)
    row = model.norm(row, f"{block}.attn_kv_a_norm")
    k_plain, v = expand_latent(model, row, block)
    k_turned = np.repeat(turn(model, k_turned[:, None, :], layer), config.heads, axis=1)
    q = np.concatenate([q_plain, turn(model, q_turned, layer)], axis=2)
    return q, np.concatenate([k_plain, k_turned], axis=2), v


def expand_latent(model, row, block):
    """row [n, rank] -> plain key channels and values of every head, [n, heads, .]."""
    latent = model.config.latent
    fused = model.weight(f"{block}.attn_kv_b.weight", optional=True)
    if fused is not None:  # older files: [heads * (plain + value), rank]
        both = (row @ fused.T).reshape(len(row), model.config.heads, -1)
        return np.split(both, [latent.plain_dim], axis=2)
    keys = model.weight(f"{block}.attn_k_b.weight")  # [heads, rank, plain]
    values = model.weight(f"{block}.attn_v_b.weight")  # [heads, value, rank]
    return np.einsum("nr,hrp->nhp", row, keys), np.einsum("nr,hvr->nhv", row, values)


def turn(model, x, layer):
    """x [n, heads, d] with its first channels rotated by position, as the layer does."""
    rope = model.config.ropes[layer]
    if rope is None:
        return x
    angles = np.arange(len(x), dtype=np.float64)[:, None, None] * rope.inv_freq
    cosine, sine = np.cos(angles) * rope.magnitude, np.sin(angles) * rope.magnitude
    pairs = len(rope.inv_freq)
    if model.config.family.pairs == "interleaved":
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    else:
        first, second = slice(0, pairs), slice(pairs, 2 * pairs)
    out = x.copy()
    a, b = x[..., first], x[..., second]
    out[..., first] = a * cosine - b * sine
    out[..., second] = a * sine + b * cosine
    return out


def attention(q, k, v, *, scale, window, cap, sinks):
    """Causal attention. q [n, heads, d], k [n, kv_heads, d], v [n, kv_heads, dv] -> [n, heads * dv].

    A position sees itself and window - 1 before it (all when window is 0). sinks [heads]: a logit
    that takes part in the softmax and carries no value.
    """
    n, heads, _ = q.shape
    group = heads // k.shape[1]
    out = np.empty((n, heads, v.shape[2]))
    for head in range(heads):
        keys, values = k[:, head // group], v[:, head // group]
        sink = None if sinks is None else sinks[head]
        for begin in range(0, n, QUERY_CHUNK):
            end = min(n, begin + QUERY_CHUNK)
            first = max(0, begin + 1 - window) if window else 0
            scores = scale * (q[begin:end, head] @ keys[first:end].T)
            if cap:
                scores = cap * np.tanh(scores / cap)
            distance = np.arange(begin, end)[:, None] - np.arange(first, end)[None, :]
            scores[(distance < 0) | ((distance >= window) if window else False)] = -np.inf
            out[begin:end, head] = softmax(scores, sink) @ values[first:end]
    return out.reshape(n, -1)


def softmax(scores, sink=None):
    """Over the last axis, with one more logit `sink` in the sum if there is one."""
    top = scores.max(axis=-1, keepdims=True)
    if sink is not None:
        top = np.maximum(top, sink)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / (total if sink is None else total + np.exp(sink - top))
