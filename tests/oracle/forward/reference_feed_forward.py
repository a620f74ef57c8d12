"""The feed-forward part of the reference: what a layer adds to each position by itself."""

import math

import numpy as np

from reference_attention import softmax


def feed_forward_part(model, h, layer):
    """h [n, width], normed -> [n, width]."""
    experts = model.config.experts
    if experts is None or layer < experts.leading_dense:
        return dense(model, h, f"blk.{layer}")
    return mixture(model, h, f"blk.{layer}") + shared_expert(model, h, f"blk.{layer}")


def dense(model, h, block):
    up = model.linear(h, f"{block}.ffn_up")
    gate_kind = model.config.family.gate
    if gate_kind == "none":
        return model.linear(activate(model, up), f"{block}.ffn_down")
    if gate_kind == "fused":
        gate, up = np.split(up, 2, axis=1)
    else:
        gate = model.linear(h, f"{block}.ffn_gate")
    return model.linear(gated(model, gate, up), f"{block}.ffn_down")


def mixture(model, h, block):
    """The chosen experts' outputs, weighted."""
    weights = expert_weights(model, h, block)
    stacks = {
        part: (
            model.weight(f"{block}.ffn_{part}_exps.weight"),
            model.weight(f"{block}.ffn_{part}_exps.bias", optional=True),
        )
        for part in ("gate", "up", "down")
    }

    def multiply(x, part, expert):
        matrices, biases = stacks[part]
        y = x @ matrices[expert].T
        return y if biases is None else y + biases[expert]

    out = np.zeros_like(h)
    for expert in range(weights.shape[1]):
        chosen = np.flatnonzero(weights[:, expert])
        x = h[chosen]
        y = gated(model, multiply(x, "gate", expert), multiply(x, "up", expert))
        out[chosen] += weights[chosen, expert, None] * multiply(y, "down", expert)
    return out


def expert_weights(model, h, block):
    """[n, experts]: the weight of each chosen expert, 0 for the others."""
    experts = model.config.experts
    scores = model.linear(h, f"{block}.ffn_gate_inp")
    if experts.gating == "softmax":
        scores = softmax(scores)
    elif experts.gating == "sigmoid":
        scores = sigmoid(scores)
    bias = model.weight(f"{block}.exp_probs_b.bias", optional=True)  # for the choice alone
    ranked = scores if bias is None else scores + bias
    chosen = np.argsort(-ranked, axis=1, kind="stable")[:, : experts.used]
    weights = np.take_along_axis(scores, chosen, axis=1)
    if experts.gating == "chosen":
        weights = softmax(weights)
    if experts.renormalised:
        weights = weights / weights.sum(axis=1, keepdims=True)
    out = np.zeros_like(scores)
    np.put_along_axis(out, chosen, weights * experts.scale, axis=1)
    return out


def shared_expert(model, h, block):
    """What every token takes besides, if the family has it; Qwen2's passes a gate."""
    up = model.weight(f"{block}.ffn_up_shexp.weight", optional=True)
    if up is None:
        return 0.0
    y = gated(model, model.linear(h, f"{block}.ffn_gate_shexp"), h @ up.T)
    y = model.linear(y, f"{block}.ffn_down_shexp")
    door = model.weight(f"{block}.ffn_gate_inp_shexp.weight", optional=True)
    return y if door is None else y * sigmoid(h @ door.reshape(-1))[:, None]


def gated(model, gate, up):
    if model.config.family.activation == "clamped_swiglu":  # gpt-oss
        gate, up = np.minimum(gate, 7.0), np.clip(up, -7.0, 7.0)
        return gate * sigmoid(1.702 * gate) * (up + 1.0)
    return activate(model, gate) * up


def activate(model, x):
    return {"silu": silu, "gelu_tanh": gelu_tanh, "gelu_erf": gelu_erf}[
        model.config.family.activation
    ](x)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))
