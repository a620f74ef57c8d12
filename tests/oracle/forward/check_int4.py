#!/usr/bin/env python3
"""Holds the int4 layouts of AWQ and GPTQ against an unpacker in numpy.

    check_int4.py --binary build/release/bin/ashlar --maker build/release/bin/make_tiny_folder

A tiny Llama's matrices are replaced by random codes, zeros and scales, packed as AutoAWQ and AutoGPTQ
pack them, and unpacked again by shifts over whole arrays, as their dequantising code does. Every weight
that ashlar gives must have the same bits. Then the same model with these weights in F32 must give the
same logits: the same bits where inputs keep their order, within 1e-5 of a row's range with act order.
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
import ashlar_cli
from check_tiny import largest_error

MODEL = "wide-heads"
HEADS = {"attn_q": 4, "attn_k": 2}
MODULES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
AWQ_REVERSE = [0, 4, 1, 5, 2, 6, 3, 7]
SHIFTS = np.arange(0, 32, 4, dtype=np.uint32)
VARIANTS = {
    "awq": {"quant_method": "awq", "version": "gemm", "zero_point": True},
    "gptq": {"quant_method": "gptq", "desc_act": False, "sym": False},
    "gptq symmetric": {"quant_method": "gptq", "desc_act": False, "sym": True},
    "gptq act order": {"quant_method": "gptq", "desc_act": True, "sym": False},
    "gptq_v2": {"quant_method": "gptq", "checkpoint_format": "gptq_v2", "sym": False},
    "gptq of one group": {"quant_method": "gptq", "desc_act": False, "sym": False},
}
DTYPES = {"F32": np.float32, "F16": np.float16, "I32": np.int32}


# --- safetensors


def read_tensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            values = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
            out[name] = values.reshape(entry["shape"])
    return out


def write_tensors(path, tensors):
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, offset = {}, 0
    for name, value in tensors.items():
        header[name] = {
            "dtype": names[value.dtype.type],
            "shape": list(value.shape),
            "data_offsets": [offset, offset + value.nbytes],
        }
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    blocks = [struct.pack("<Q", len(text)), text]
    path.write_bytes(b"".join(blocks + [np.ascontiguousarray(t).tobytes() for t in tensors.values()]))


# --- packing, as the published packers do it: word by word


def pack_awq(codes):
    words = np.zeros((codes.shape[0], codes.shape[1] // 8), dtype=np.uint32)
    for column in range(words.shape[1]):
        for i, place in enumerate(AWQ_ORDER):
            words[:, column] |= codes[:, 8 * column + place] << np.uint32(4 * i)
    return words.view(np.int32)


def pack_rows(codes):
    words = np.zeros((codes.shape[0] // 8, codes.shape[1]), dtype=np.uint32)
    for row in range(words.shape[0]):
        for i in range(8):
            words[row] |= codes[8 * row + i] << np.uint32(4 * i)
    return words.view(np.int32)


def pack_columns(codes):
    return np.ascontiguousarray(pack_rows(np.ascontiguousarray(codes.T)).T)


# --- unpacking, by shifts over whole arrays


def unpack_columns(words, order=range(8)):
    nibbles = (words.view(np.uint32)[:, :, None] >> SHIFTS) & 15
    return nibbles[:, :, list(order)].reshape(words.shape[0], -1)


def unpack_rows(words):
    nibbles = (words.view(np.uint32)[:, None, :] >> SHIFTS[:, None]) & 15
    return nibbles.reshape(-1, words.shape[1])


def dequantise(config, parts):
    """[out, in] f32 of a matrix's tensors."""
    if config["quant_method"] == "awq":
        q = unpack_columns(parts["qweight"], AWQ_REVERSE)
        zeros = unpack_columns(parts["qzeros"], AWQ_REVERSE)
        group = np.arange(q.shape[0]) // (q.shape[0] // zeros.shape[0])
    else:
        q = unpack_rows(parts["qweight"])
        zeros = unpack_columns(parts["qzeros"])
        if config.get("checkpoint_format", "gptq") == "gptq":
            zeros = zeros + 1
        group = parts["g_idx"]
    difference = (q.astype(np.int32) - zeros.astype(np.int32)[group]).astype(np.float32)
    return np.ascontiguousarray((difference * parts["scales"].astype(np.float32)[group]).T)


def random_matrix(config, shape, rng):
    """Tensors of a matrix of `shape` (out, in)."""
    out, inputs = shape
    size = inputs if config["group_size"] == -1 else config["group_size"]
    groups = inputs // size
    q = rng.integers(0, 16, (inputs, out), dtype=np.uint32)
    stored_zeros = rng.integers(0, 16, (groups, out), dtype=np.uint32)
    if config.get("sym"):
        stored_zeros[:] = 7
    parts = {"scales": (rng.uniform(0.002, 0.02, (groups, out))).astype(np.float16)}
    if config["quant_method"] == "awq":
        return parts | {"qweight": pack_awq(q), "qzeros": pack_awq(stored_zeros)}
    g_idx = np.arange(inputs, dtype=np.int32) // size
    if config.get("desc_act"):
        g_idx = rng.permutation(g_idx)
    return parts | {
        "qweight": pack_rows(q),
        "qzeros": pack_columns(stored_zeros),
        "g_idx": g_idx,
    }


# --- comparing


def in_pairs(rows, heads):
    """GGUF's order of the rows of Q and K."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def dump(maker, folder, name, shape):
    out = folder / "dump.f32"
    done = subprocess.run([maker, "--dump", folder, name, out], check=True, capture_output=True, text=True)
    return done.stdout.strip(), np.fromfile(out, np.float32).reshape(shape)


def make(maker, config, folder, rng):
    """Two folders: int4, and the same weights in F32. Returns {GGUF's name: weights}."""
    weights = {}
    for name in ("int4", "plain"):
        (folder / name).mkdir()
        subprocess.run([maker, MODEL, folder / name], check=True, capture_output=True)
    tensors = read_tensors(folder / "plain" / "model.safetensors")
    packed, plain = {}, {}
    for name, value in tensors.items():
        module = name.removesuffix(".weight")
        kind = module.split(".", 3)[-1]
        if kind not in MODULES:
            packed[name] = plain[name] = value
            continue
        parts = random_matrix(config, value.shape, rng)
        packed |= {f"{module}.{leaf}": part for leaf, part in parts.items()}
        plain[name] = dequantise(config, parts)
        ours = MODULES[kind]
        rows = in_pairs(plain[name], HEADS[ours]) if ours in HEADS else plain[name]
        weights[f"blk.{module.split('.')[2]}.{ours}.weight"] = rows
    write_tensors(folder / "int4" / "model.safetensors", packed)
    write_tensors(folder / "plain" / "model.safetensors", plain)
    path = folder / "int4" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": config}))
    return weights


def logits_of(ashlar, folder, ids):
    out = folder / "logits.f32"
    ashlar.write_logits(folder, ids, out)
    return np.array(ashlar_cli.map_logits(out, 259), dtype=np.float64)


def check(ashlar, maker, name, config, folder):
    weights = make(maker, config, folder, np.random.default_rng(11))
    wanted_dtype = "Q4_0" if config.get("sym") else "Q5_0"
    for tensor, wanted in weights.items():
        dtype, values = dump(maker, folder / "int4", tensor, wanted.shape)
        # A zero has no sign here; in numpy 0 * scale has that of the scale, which is positive.
        if values.tobytes() != wanted.tobytes() or dtype != wanted_dtype:
            print(f"{name}: FAILED, {tensor} ({dtype}) differs from the unpacked weights")
            return False
    ids = [int(token) for token in np.random.default_rng(3).integers(0, 259, 60)]
    theirs = logits_of(ashlar, folder / "plain", ids)
    ours = logits_of(ashlar, folder / "int4", ids)
    error, position = largest_error(ours, theirs)
    passed = error <= (1e-5 if config.get("desc_act") else 0.0)
    print(
        f"{name}: {'ok' if passed else 'FAILED'}, {len(weights)} matrices equal, logits differ by "
        f"{error:.1e} of the range at position {position}"
    )
    return passed


def main():
    parser = ashlar_cli.parser(__doc__)
    parser.add_argument("--maker", required=True, help="the make_tiny_folder program")
    args = parser.parse_args()
    ashlar = ashlar_cli.Ashlar(args.binary, ["--kv-codec", "f32", "--activations", "f32"])
    good = True
    for name, fields in VARIANTS.items():
        group = -1 if name.endswith("one group") else 64
        config = {"bits": 4, "group_size": group, **fields}
        with tempfile.TemporaryDirectory(prefix="ashlar-int4-") as folder:
            good = check(ashlar, args.maker, name, config, Path(folder)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
