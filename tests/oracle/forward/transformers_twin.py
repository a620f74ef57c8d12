"""A transformers model with the weights of a tiny GGUF model, in float64.

Configurations are written from the GGUF keys, weights are put back into the layout that the
converter took them from.
"""

import re

import numpy as np
import torch
import transformers

LAYER_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_kv_b": "self_attn.kv_b_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}
SHARED = {f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")}
SANDWICH = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
GPT2 = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
FALCON = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "self_attention.query_key_value",
    "attn_output": "self_attention.dense",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
GPT2_WHOLE = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"}
FALCON_WHOLE = {"token_embd": "word_embeddings", "output_norm": "ln_f"}


def twin_of(model):
    """`model` is a reference_forward.Model."""
    arch = model.metadata["general.architecture"]
    cls, config = make_config(arch, model)
    plain = dict(attn_implementation="eager", experts_implementation="eager")
    made = cls._from_config(config, **plain).double().eval()
    state = {name: torch.tensor(value) for name, value in weights(arch, model).items()}
    missing, unexpected = made.load_state_dict(state, strict=False)
    left = [name for name in missing if not (config.tie_word_embeddings and "lm_head" in name)]
    if left or unexpected:
        raise ValueError(f"{arch}: not given {left}, unknown {unexpected}")
    made.tie_weights()
    for module in made.modules():  # DeepSeek's inner norms ignore the configuration's epsilon
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = model.config.eps
    return made


# --- configurations ---


def common_config(key, model, **more):
    config = model.config
    return dict(
        vocab_size=model.vocab_size,
        hidden_size=key("embedding_length"),
        intermediate_size=key("feed_forward_length"),
        num_hidden_layers=key("block_count"),
        num_attention_heads=key("attention.head_count"),
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=key("context_length"),
        rms_norm_eps=config.eps,
        rope_parameters=rope_parameters(key),
        tie_word_embeddings=model.weight("output.weight", optional=True) is None,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **more,
    )


def rope_parameters(key):
    base = {"rope_theta": key("rope.freq_base", 10000.0)}
    kind = key("rope.scaling.type", "none")
    if kind == "none":
        return {"rope_type": "default", **base}
    base |= {"rope_type": kind, "factor": key("rope.scaling.factor")}
    if kind == "yarn":
        base["original_max_position_embeddings"] = key("rope.scaling.original_context_length")
        mscale = key("rope.scaling.yarn_log_multiplier", 0.0) * 10.0
        base |= {"mscale": mscale, "mscale_all_dim": mscale} if mscale else {}
    return base


def make_config(arch, model):
    metadata = model.metadata

    def key(name, default=None):
        return metadata.get(f"{arch}.{name}", default)

    window = key("attention.sliding_window", 0)
    experts = dict(
        num_experts_per_tok=key("expert_used_count"),
        moe_intermediate_size=key("expert_feed_forward_length"),
    )
    if arch == "llama" and key("expert_count"):
        more = dict(num_local_experts=key("expert_count"), num_experts_per_tok=2)
        return of("Mixtral", common_config(key, model, sliding_window=None, **more))
    if arch == "llama" and window:
        return of("Mistral", common_config(key, model, sliding_window=window))
    if arch in ("llama", "qwen2", "qwen3", "smollm3"):
        names = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "smollm3": "SmolLM3"}
        more = {}
        if model.weight("blk.0.ffn_up.bias", optional=True) is not None:
            more = dict(attention_bias=True, mlp_bias=True)
        return of(names[arch], common_config(key, model, **more))
    if arch == "qwen2moe":
        more = dict(
            num_experts=key("expert_count"),
            shared_expert_intermediate_size=key("expert_shared_feed_forward_length"),
            norm_topk_prob=False,
        )
        return of("Qwen2Moe", common_config(key, model, **experts, **more))
    if arch == "qwen3moe":
        more = dict(num_experts=key("expert_count"), norm_topk_prob=True)
        return of("Qwen3Moe", common_config(key, model, **experts, **more))
    if arch.startswith("gemma"):
        return gemma_config(arch, key, model, window)
    if arch == "phi3":
        return phi3_config(key, model, window)
    if arch == "falcon":
        return falcon_config(key, model)
    if arch == "gpt2":
        sizes = dict(n_embd=key("embedding_length"), n_layer=key("block_count"))
        sizes |= dict(n_head=key("attention.head_count"), n_positions=key("context_length"))
        made = transformers.GPT2Config(vocab_size=model.vocab_size, **sizes)
        return transformers.GPT2LMHeadModel, made
    if arch == "deepseek2":
        return deepseek_config(key, model, experts)
    if arch == "gpt-oss":
        config = common_config(key, model, sliding_window=window, **experts)
        config["rope_parameters"]["truncate"] = False
        config["num_local_experts"] = key("expert_count")
        return of("GptOss", config)
    raise ValueError(arch)


def of(name, config, config_name=None):
    config_class = getattr(transformers, config_name or f"{name}Config")
    return getattr(transformers, f"{name}ForCausalLM"), config_class(**config)


def gemma_config(arch, key, model, window):
    config = common_config(key, model, hidden_activation="gelu_pytorch_tanh")
    if arch == "gemma":
        return of("Gemma", config)
    config |= dict(
        sliding_window=window,
        attn_logit_softcapping=key("attn_logit_softcapping"),
        final_logit_softcapping=key("final_logit_softcapping"),
        query_pre_attn_scalar=round(model.config.attention_scale**-2),
        layer_types=[
            "sliding_attention" if window else "full_attention" for window in model.config.windows
        ],
    )
    if arch == "gemma2":
        return of("Gemma2", config)
    config["rope_parameters"] = {
        "full_attention": config["rope_parameters"],
        "sliding_attention": {
            "rope_type": "default",
            "rope_theta": key("rope.freq_base_swa", 10000.0),
        },
    }
    return of("Gemma3", config, "Gemma3TextConfig")


def phi3_config(key, model, window):
    config = common_config(key, model, sliding_window=window or None)
    del config["head_dim"]
    rope = config["rope_parameters"]
    rope["partial_rotary_factor"] = key("rope.dimension_count") / model.config.head_dim
    long = model.weight("rope_factors_long.weight", optional=True)
    if long is not None:
        original = key("rope.scaling.original_context_length")
        short = model.weight("rope_factors_short.weight")
        rope |= dict(rope_type="longrope", long_factor=list(long), short_factor=list(short))
        rope["original_max_position_embeddings"] = original
        config["original_max_position_embeddings"] = original
    return of("Phi3", config)


def falcon_config(key, model):
    has_two_norms = model.weight("blk.0.attn_norm_2.weight", optional=True) is not None
    config = transformers.FalconConfig(
        vocab_size=model.vocab_size,
        hidden_size=key("embedding_length"),
        num_hidden_layers=key("block_count"),
        num_attention_heads=key("attention.head_count"),
        num_kv_heads=key("attention.head_count_kv"),
        layer_norm_epsilon=model.config.eps,
        new_decoder_architecture=has_two_norms,
        multi_query=True,
        parallel_attn=True,
        alibi=False,
        bias=False,
        tie_word_embeddings=False,
    )
    return transformers.FalconForCausalLM, config


def deepseek_config(key, model, experts):
    latent, mixture = model.config.latent, model.config.experts
    config = common_config(key, model, **experts)
    del config["head_dim"]
    config |= dict(
        n_routed_experts=mixture.count,
        n_shared_experts=key("expert_shared_count"),
        first_k_dense_replace=mixture.leading_dense,
        routed_scaling_factor=mixture.scale,
        norm_topk_prob=mixture.renormalised,
        q_lora_rank=key("attention.q_lora_rank"),
        kv_lora_rank=latent.rank,
        qk_rope_head_dim=key("rope.dimension_count"),
        qk_nope_head_dim=latent.plain_dim,
        v_head_dim=latent.value_dim,
        n_group=1,
        topk_group=1,
    )
    if mixture.gating == "sigmoid":
        return of("DeepseekV3", config)
    return of("DeepseekV2", config | dict(topk_method="greedy"))


# --- weights ---


def weights(arch, model):
    """{transformers' name: float64 array}."""
    out = {}
    for name in model.names():
        match = re.fullmatch(r"blk\.(\d+)\.(.+)\.(weight|bias)", name)
        if match:
            layer, part, kind = match.groups()
            out |= layer_weights(arch, model, int(layer), part, kind)
        elif not name.startswith("rope_f"):
            out |= whole_weights(arch, model, *name.rsplit(".", 1))
    return out


def whole_weights(arch, model, part, kind):
    value = model.weight(f"{part}.{kind}")
    if arch in ("gpt2", "falcon") and part != "output":
        names = GPT2_WHOLE if arch == "gpt2" else FALCON_WHOLE
        return {f"transformer.{names[part]}.{kind}": value}
    if arch.startswith("gemma") and part == "output_norm":
        value = value - 1.0
    return {f"{WHOLE[part]}.{kind}": value}


def layer_weights(arch, model, layer, part, kind):
    value = model.weight(f"blk.{layer}.{part}.{kind}")
    prefix = "transformer.h" if arch in ("gpt2", "falcon") else "model.layers"
    prefix = f"{prefix}.{layer}."
    if part.endswith("_exps"):
        return stacked_experts(arch, model, layer, part, kind, prefix)
    if part in ("attn_k_b", "attn_v_b"):
        return latent_expansion(model, layer, part, prefix)
    if part == "attn_sinks":
        return {prefix + "self_attn.sinks": value}
    if part == "exp_probs_b":
        return {prefix + "mlp.gate.e_score_correction_bias": value}
    if part == "ffn_gate_inp_shexp":
        return {prefix + "mlp.shared_expert_gate.weight": value.reshape(1, -1)}
    if arch in ("llama", "smollm3") and part in ("attn_q", "attn_k"):  # and their biases
        value = halves(value, model.config.head_dim)
    if arch == "falcon" and part == "attn_qkv":
        value = grouped(value, model.config)
    if arch == "gpt2" and kind == "weight" and value.ndim == 2:
        value = value.T
    if arch.startswith("gemma") and part.endswith("norm"):
        value = value - 1.0
    return {f"{prefix}{name_of(arch, model, part)}.{kind}": value}


def name_of(arch, model, part):
    names = LAYER_PARTS | SHARED
    if arch in ("gemma2", "gemma3"):
        names |= SANDWICH
    if arch == "qwen2moe":
        names |= {old: new.replace("experts", "expert") for old, new in SHARED.items()}
    if arch == "phi3":
        names["ffn_up"] = "mlp.gate_up_proj"
    if arch == "gpt-oss":
        names |= {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"}
    if arch == "gpt2":
        names = GPT2
    if arch == "falcon":
        names = FALCON
        if model.weight("blk.0.attn_norm_2.weight", optional=True) is not None:
            names = names | {"attn_norm": "ln_mlp", "attn_norm_2": "ln_attn"}
    return names[part]


def halves(rows, head_dim):
    """Rows of a head from pairs (2i, 2i + 1) to (i, i + d/2)."""
    heads = rows.reshape(-1, head_dim // 2, 2, *rows.shape[1:])
    return heads.swapaxes(1, 2).reshape(rows.shape)


def grouped(rows, config):
    """Falcon's fused rows from [queries, keys, values] to groups of queries, their key and value."""
    q, k, v = np.split(rows, np.cumsum([config.heads, config.kv_heads]) * config.head_dim)
    q, k, v = (x.reshape(config.kv_heads, -1, config.head_dim, rows.shape[1]) for x in (q, k, v))
    return np.concatenate([q, k, v], axis=1).reshape(rows.shape)


def stacked_experts(arch, model, layer, part, kind, prefix):
    """Gates and ups are one tensor; gpt-oss interleaves their columns and has no transposition."""
    prefix += "mlp.experts."
    suffix = "_bias" if kind == "bias" else ""

    def get(which):
        return model.weight(f"blk.{layer}.ffn_{which}_exps.{kind}")

    if part == "ffn_up_exps":
        return {}  # comes with the gates
    if part == "ffn_down_exps":
        down = get("down")
        if arch == "gpt-oss" and kind == "weight":
            down = down.swapaxes(1, 2)
        return {f"{prefix}down_proj{suffix}": down}
    if arch != "gpt-oss":
        return {f"{prefix}gate_up_proj": np.concatenate([get("gate"), get("up")], axis=1)}
    both = np.stack([get("gate"), get("up")], axis=2)  # [experts, ff, 2, ...]
    both = both.reshape(both.shape[0], -1, *both.shape[3:])
    return {f"{prefix}gate_up_proj{suffix}": both.swapaxes(1, 2) if kind == "weight" else both}


def latent_expansion(model, layer, part, prefix):
    """attn_k_b and attn_v_b as they were: one matrix, a head's key rows, then its value rows."""
    if part == "attn_v_b":
        return {}  # comes with the keys
    keys = model.weight(f"blk.{layer}.attn_k_b.weight").swapaxes(1, 2)
    values = model.weight(f"blk.{layer}.attn_v_b.weight")
    both = np.concatenate([keys, values], axis=1)
    return {prefix + "self_attn.kv_b_proj.weight": both.reshape(-1, both.shape[2])}
