"""What the reference knows of each family, and what a file says about its model."""

import math
from dataclasses import dataclass, field

import numpy as np


class Unsupported(Exception):
    """The file asks for something this reference does not compute."""


@dataclass(frozen=True)
class Family:
    """What all models of one architecture have in common and no key says."""

    pairs: str = "half"  # rotated together: "interleaved" (2i, 2i+1), "half" (i, i+d/2), "none"
    layer_norm: bool = False  # else RMSNorm
    parallel: bool = False  # attention and feed-forward read the same rows
    sandwich: bool = False  # norms on what attention and feed-forward return
    positions: bool = False  # learned position embeddings
    scaled_embedding: bool = False  # by the root of the width
    feed_forward_norm: str = "ffn_norm"
    activation: str = "silu"
    gate: str = "separate"  # "separate", "fused" (ffn_up has the gate's rows first), "none"
    renormalised: bool = False  # weights of the chosen experts sum to 1, whatever the keys say
    gating: str = "softmax"  # of experts; "chosen": softmax over the chosen ones only
    window: int = 0  # when no key says so
    window_period: int = 1  # every n-th layer is full; 1: all slide
    rope_gap: int = 0  # every n-th layer has no rotation
    attention_cap: float = 0.0  # when no key says so
    logit_cap: float = 0.0
    own_sliding_rope: bool = False  # sliding layers: base 10000 unless a key says so, no scaling
    broad_layers: int = 0  # a model of so many layers scales attention by its width per head
    yarn_rounds: bool = True  # the ends of YaRN's ramp


FAMILIES = {
    "llama": Family(pairs="interleaved", renormalised=True),
    "qwen2": Family(),
    "qwen2moe": Family(),
    "qwen3": Family(),
    "qwen3moe": Family(renormalised=True),
    "gemma": Family(activation="gelu_tanh", scaled_embedding=True),
    "gemma2": Family(
        activation="gelu_tanh",
        scaled_embedding=True,
        sandwich=True,
        window=4096,
        window_period=2,
        attention_cap=50.0,
        logit_cap=30.0,
        broad_layers=46,
    ),
    "gemma3": Family(
        activation="gelu_tanh",
        scaled_embedding=True,
        sandwich=True,
        window_period=6,
        own_sliding_rope=True,
        broad_layers=62,
    ),
    "phi3": Family(gate="fused"),
    "smollm3": Family(pairs="interleaved", rope_gap=4),
    "falcon": Family(layer_norm=True, parallel=True, activation="gelu_erf", gate="none"),
    "gpt2": Family(
        pairs="none", layer_norm=True, positions=True, activation="gelu_tanh", gate="none"
    ),
    "deepseek2": Family(pairs="interleaved"),
    "gpt-oss": Family(
        activation="clamped_swiglu",
        feed_forward_norm="post_attention_norm",
        gating="chosen",
        window_period=2,
        yarn_rounds=False,
    ),
}

GATINGS = {1: "softmax", 2: "sigmoid"}
LENGTHS = ("short", "long")


@dataclass(frozen=True)
class Experts:
    count: int
    used: int
    gating: str
    renormalised: bool
    scale: float
    leading_dense: int  # layers before the first with experts


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2)."""

    rank: int
    plain_dim: int  # channels of a head's key that are not rotated
    value_dim: int


@dataclass(frozen=True)
class Rope:
    """Rotation of one kind of layer."""

    inv_freq: np.ndarray  # [rotated channels / 2] radians per position
    magnitude: float = 1.0  # multiplies cosine and sine


@dataclass(frozen=True)
class Config:
    """The geometry and constants of one model, from the file's metadata."""

    family: Family
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    embedding_scale: float
    attention_scale: float
    attention_cap: float  # 0: none
    logit_cap: float
    windows: list = field(default_factory=list)  # per layer; 0: full attention
    ropes: list = field(default_factory=list)  # per layer; None: no rotation
    experts: Experts | None = None
    latent: Latent | None = None


class Keys:
    """The metadata of an architecture: get("block_count") is llama.block_count."""

    def __init__(self, metadata, arch):
        self._metadata, self._arch = metadata, arch

    def get(self, key, default=None):
        value = self._metadata.get(f"{self._arch}.{key}", default)
        if value is None:
            raise Unsupported(f"metadata {self._arch}.{key} is missing")
        return value


def read_config(metadata, weight, context):
    """`weight(name, optional)` gives a tensor: rotation divisors are tensors."""
    arch = metadata["general.architecture"]
    if arch not in FAMILIES:
        raise Unsupported(f"architecture {arch}; known: {sorted(FAMILIES)}")
    family, keys = FAMILIES[arch], Keys(metadata, arch)
    layers, width = keys.get("block_count"), keys.get("embedding_length")
    heads = keys.get("attention.head_count")
    head_dim = keys.get("attention.key_length", width // heads)
    latent = read_latent(keys)
    if latent:
        head_dim = latent.plain_dim + keys.get("rope.dimension_count")
    windows = read_windows(keys, family, layers)
    eps = "layer_norm_epsilon" if family.layer_norm else "layer_norm_rms_epsilon"
    return Config(
        family=family,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=heads if latent else keys.get("attention.head_count_kv", heads),
        head_dim=head_dim,
        eps=keys.get(f"attention.{eps}"),
        embedding_scale=math.sqrt(width) if family.scaled_embedding else 1.0,
        attention_scale=read_attention_scale(keys, family, head_dim, latent),
        attention_cap=keys.get("attn_logit_softcapping", family.attention_cap),
        logit_cap=keys.get("final_logit_softcapping", family.logit_cap),
        windows=windows,
        ropes=read_ropes(
            keys, family, weight, head_dim, windows, context or keys.get("context_length")
        ),
        experts=read_experts(keys, family),
        latent=latent,
    )


def read_latent(keys):
    rank = keys.get("attention.kv_lora_rank", 0)
    if not rank:
        return None
    # Older files give the lengths of expanded heads under the usual names.
    length = keys.get("attention.key_length_mla", keys.get("attention.key_length"))
    value = keys.get("attention.value_length_mla", keys.get("attention.value_length"))
    return Latent(rank, length - keys.get("rope.dimension_count"), value)


def read_windows(keys, family, layers):
    window = keys.get("attention.sliding_window", family.window)
    pattern = keys.get("attention.sliding_window_pattern", family.window_period)
    if isinstance(pattern, list):
        return [window if sliding else 0 for sliding in pattern]
    if pattern == 1:
        return [window] * layers
    return [window if layer % pattern < pattern - 1 else 0 for layer in range(layers)]


def read_attention_scale(keys, family, head_dim, latent):
    layers, width = keys.get("block_count"), keys.get("embedding_length")
    if layers == family.broad_layers:
        return 1.0 / math.sqrt(width // keys.get("attention.head_count"))
    scale = 1.0 / math.sqrt(head_dim)
    if latent and keys.get("rope.scaling.type", "linear") == "yarn":
        # DeepSeek scales scores where others scale cosine and sine; the file holds a tenth of the
        # model's mscale_all_dim.
        factor = keys.get("rope.scaling.factor")
        mscale = 1.0 + keys.get("rope.scaling.yarn_log_multiplier") * math.log(factor)
        scale *= mscale * mscale
    return scale


def read_experts(keys, family):
    count = keys.get("expert_count", 0)
    if count == 0:
        return None
    if keys.get("expert_group_count", 1) > 1:
        raise Unsupported("groups of experts")
    gating = family.gating
    if gating == "softmax":
        number = keys.get("expert_gating_func", 1)
        gating = GATINGS.get(number)
        if gating is None:
            raise Unsupported(f"expert_gating_func {number}; known: {GATINGS}")
    return Experts(
        count=count,
        used=keys.get("expert_used_count"),
        gating=gating,
        renormalised=family.renormalised or keys.get("expert_weights_norm", False),
        scale=keys.get("expert_weights_scale", 0.0) or 1.0,
        leading_dense=keys.get("leading_dense_block_count", 0),
    )


def read_ropes(keys, family, weight, head_dim, windows, context):
    """The rotation of every layer."""
    if family.pairs == "none":
        return [None] * len(windows)
    dims = keys.get("rope.dimension_count", head_dim)
    full = read_rope(keys, family, weight, dims, context)
    sliding = full
    if family.own_sliding_rope:
        base = keys.get("rope.freq_base_swa", 10000.0)
        sliding = Rope(base ** (-2.0 * np.arange(dims // 2, dtype=np.float64) / dims))
    ropes = [sliding if window else full for window in windows]
    if family.rope_gap:
        ropes = [None if (i + 1) % family.rope_gap == 0 else rope for i, rope in enumerate(ropes)]
    return ropes


def read_rope(keys, family, weight, dims, context):
    """The rotation of full layers, after the file's scaling."""
    base = keys.get("rope.freq_base", 10000.0)
    inv_freq = base ** (-2.0 * np.arange(dims // 2, dtype=np.float64) / dims)
    # Llama 3's scaling is stored as one divisor per pair, worked out by whoever made the file.
    divisors = weight("rope_freqs.weight", optional=True)
    if divisors is not None:
        inv_freq = inv_freq / divisors
    magnitude = keys.get("rope.scaling.attn_factor", 1.0)
    factors = {kind: weight(f"rope_factors_{kind}.weight", optional=True) for kind in LENGTHS}
    if factors["long"] is not None:  # Phi-3; the same for all positions, or a cache would be wrong
        is_long = context > keys.get("rope.scaling.original_context_length")
        return Rope(inv_freq / factors[LENGTHS[is_long]], magnitude)
    kind = keys.get("rope.scaling.type", "linear")
    factor = keys.get("rope.scaling.factor", keys.get("rope.scale_linear", 0.0)) or 1.0
    if kind == "none":
        return Rope(inv_freq, magnitude)
    if kind == "linear":
        return Rope(inv_freq / factor, magnitude)
    if kind != "yarn":
        raise Unsupported(f"rope scaling {kind}")
    if keys.get("rope.scaling.yarn_log_multiplier", 0.0) == 0.0:  # else scores are scaled instead
        magnitude *= 1.0 + 0.1 * math.log(factor)
    interpolated = yarn_ramp(keys, family, dims, base)
    return Rope(inv_freq * (1.0 - interpolated) + inv_freq / factor * interpolated, magnitude)


def yarn_ramp(keys, family, dims, base):
    """Peng et al. 2023: which share of each pair's frequency is interpolated, [dims / 2].

    Pairs that turn more than beta_fast times over the original context keep their frequency, those
    that turn less than beta_slow times are interpolated, a ramp in between.
    """
    context = keys.get("rope.scaling.original_context_length", keys.get("context_length"))
    beta_fast = keys.get("rope.scaling.yarn_beta_fast", 32.0)
    beta_slow = keys.get("rope.scaling.yarn_beta_slow", 1.0)

    def pair_turning(turns):
        return dims * math.log(context / (turns * 2.0 * math.pi)) / (2.0 * math.log(base))

    low, high = pair_turning(beta_fast), pair_turning(beta_slow)
    if family.yarn_rounds:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(0.0, low), min(dims - 1.0, high)
    pairs = np.arange(dims // 2, dtype=np.float64)
    return np.clip((pairs - low) / max(0.001, high - low), 0.0, 1.0)
