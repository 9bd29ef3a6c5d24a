"""Writes a checkpoint with made-up weights: python goldens/generate/weights.py sd15|sdxl|... OUT.safetensors

Names and shapes come from `<model>.txt` beside this file. Every tensor is a stretch of one pool of uniform numbers
that a counter and a hash give, so the same weights can be made anywhere without Python (nino-engine's
`generate/tests/made.rs` does for the small models). Needs numpy 1.26.4 and nothing else.
"""

import json
import math
import re
import struct
import sys
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
POOL = 1_000_003


def expand(name):
    """`{a-b}` stands for every number from a to b."""
    m = re.search(r"\{(\d+)-(\d+)\}", name)
    if not m:
        return [name]
    numbers = range(int(m[1]), int(m[2]) + 1)
    return [n for i in numbers for n in expand(name[: m.start()] + str(i) + name[m.end() :])]


GUIDANCE = ["in_layer.bias", "in_layer.weight", "out_layer.bias", "out_layer.weight"]
ADAPTER = "model.diffusion_model.control_adapter."
CAMERA = {f"{ADAPTER}conv.bias": [256], f"{ADAPTER}conv.weight": [256, 1536, 2, 2]}
CAMERA |= {f"{ADAPTER}residual_blocks.0.conv{i}.{k}": s for i in (1, 2) for k, s in (("bias", [256]), ("weight", [256, 256, 3, 3]))}
LABEL = "model.diffusion_model.label_emb.0."
LOTUS = {f"{LABEL}0.weight": [256, 4], f"{LABEL}0.bias": [256], f"{LABEL}2.weight": [256, 256], f"{LABEL}2.bias": [256]}
# Models that differ from another's list in a few tensors.
KIN = {
    "tiny_edit": ("tiny_sd1", {"model.diffusion_model.input_blocks.0.0.weight": [32, 8, 3, 3]}),
    "tiny_schnell": ("tiny_flux", {f"model.diffusion_model.guidance_in.{k}": None for k in GUIDANCE}),
    "tiny_control": ("tiny_flux", {"model.diffusion_model.img_in.weight": [256, 128]}),
    "tiny_fill": ("tiny_flux", {"model.diffusion_model.img_in.weight": [256, 384]}),
    "wide_schnell": ("wide_flux", {f"model.diffusion_model.guidance_in.{k}": None for k in GUIDANCE}),
    "wide_control": ("wide_flux", {"model.diffusion_model.img_in.weight": [3072, 128]}),
    "wide_fill": ("wide_flux", {"model.diffusion_model.img_in.weight": [3072, 384]}),
    "tiny_lotus": ("tiny_sd2", LOTUS),
    "control_qwen_paint": ("control_qwen", {"controlnet_x_embedder.weight": [256, 68]}),
    "control_lllite_paint": ("control_lllite", {"lllite_conditioning1.conv1.weight": [12, 4, 4, 4]}),
    "control_blockwise_paint": ("control_blockwise", {"img_in.weight": [256, 68]}),
    "control_alimama": ("control_union", {"controlnet_x_embedder.weight": [256, 68], "controlnet_mode_embedder.weight": None}),
    "tiny_wan_camera": ("tiny_wan22_i2v", CAMERA),
    "tiny_playground": ("tiny_sdxl", {"edm_mean": [1, 4, 1, 1], "edm_std": [1, 4, 1, 1]}),
}


# Models with all blocks of the first, a tenth as wide, and the other parts of the second.
NARROW = {"narrow_sd1": ("sd15", "tiny_sd1"), "narrow_sdxl": ("sdxl", "tiny_sdxl")}
WIDTHS = {320: 32, 640: 64, 960: 96, 1280: 128, 1920: 192, 2560: 256, 5120: 512, 10240: 1024}


def narrow(model):
    whole, small = (tensors(m) for m in NARROW[model])
    out = {n: [WIDTHS.get(d, d) for d in shape] for n, shape in whole.items() if n.startswith("model.")}
    return out | {n: shape for n, shape in small.items() if not n.startswith("model.")}


# Wan's models of full width: the small model's list, and the width and the MLP's.
WAN = {
    "wide_wan": ("tiny_wan", 1536, 8960),
    "wide_wan_low": ("tiny_wan_low", 1536, 8960),
    "wide_wan_vace": ("tiny_wan_vace", 1536, 8960),
    "wide_wan_camera": ("tiny_wan_camera", 1536, 8960),
    "wide_wan_5b": ("tiny_wan_5b", 3072, 14336),
    "wide_wan_i2v": ("tiny_wan_i2v", 5120, 13824),
    "wide_wan_flf": ("tiny_wan_i2v", 5120, 13824),
    "wide_wan22_i2v": ("tiny_wan22_i2v", 5120, 13824),
}
# UMT5-XXL's sizes in the place of the small one's; its vocabulary stays small.
UMT5 = {64: 4096, 128: 4096, 96: 10240, 2: 64}


def wide_wan(model):
    small, width, mlp = WAN[model]
    out = {}
    for name, shape in tensors(small).items():
        part = name.removeprefix("model.diffusion_model.")
        if name.startswith("text_encoders."):
            shape = [UMT5.get(d, d) for d in shape]
        elif part.startswith("img_emb."):
            shape = [width if d == 256 else d for d in shape]
        elif part != name:
            shape = [{256: width, 384: mlp, 6 * 256: 6 * width}.get(d, d) for d in shape]
            if part == "time_embedding.0.weight":
                shape = [width, 256]
            elif part == "text_embedding.0.weight":
                shape = [width, 4096]
            elif part.startswith("control_adapter.conv.weight"):
                shape = [width, 1536, 2, 2]
        out[name] = shape
    if model == "wide_wan_flf":
        out["model.diffusion_model.img_emb.emb_pos"] = [1, 12, 1280]
    return out


def tensors(model):
    if model in NARROW:
        return narrow(model)
    if model in WAN:
        return wide_wan(model)
    if model == "siglip_deep":
        return deep_siglip()
    model, changed = KIN.get(model, (model, {}))
    out = {}
    # As many layers as the published one has.
    model, deep = ("tiny_z_image", "layers.{0-29}.") if model == "tiny_z_deep" else (model, "layers.{0-1}.")
    for line in (HERE / f"{model}.txt").read_text().replace("diffusion_model.layers.{0-1}.", f"diffusion_model.{deep}").splitlines():
        name, shape = line.rsplit(" ", 1)
        shape = [] if shape == "scalar" else [int(n) for n in shape.split("x")]
        out |= {n: shape for n in expand(name)}
    return {name: shape for name, shape in (out | changed).items() if shape is not None}


def deep_siglip():
    """As many layers as USO looks back."""
    small = tensors("siglip")
    layer = {n: shape for n, shape in small.items() if ".layers.1." in n}
    return small | {n.replace(".layers.1.", f".layers.{i}."): shape for n, shape in layer.items() for i in range(2, 21)}


def pool():
    """Uniform numbers with deviation 1: SplitMix64 of 1, 2, 3, ..., the top 24 bits."""
    with np.errstate(over="ignore"):
        z = np.arange(1, POOL + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    units = (z >> np.uint64(40)).astype(np.float32) / np.float32(2**24) - np.float32(0.5)
    return units * np.float32(math.sqrt(12))


def scale(name, shape):
    """Mean and deviation that keep activations near 1 and residual branches smaller than what they add to."""
    # A variance is above 0.
    norms = ("weight", "scale", "running_var")
    if name.endswith("norm.weight") or (name.endswith(norms) and len(shape) == 1):
        return 1.0, 0.1
    if len(shape) < 2:
        return 0.0, 0.05
    if "embedding" in name and not re.search(r"(text|time|patch)_embedding\.", name):
        return 0.0, 0.5
    fan = math.prod(shape[1:])
    branch = re.search(
        r"out_layers\.3|to_out|proj_out|net\.2|fc2|c_proj|out_proj|conv2|attn\.proj|mlp\.2|linear2|SelfAttention\.[qo]|Dense\.wo|_attn\.o\.|ffn\.2"
        r"|o_proj|down_proj|attention\.out|feed_forward\.w2",
        name,
    )
    return 0.0, (0.3 if branch else 1.0) / math.sqrt(fan)


def values(pool, name, shape):
    n = math.prod(shape)
    first = zlib.crc32(name.encode()) % POOL
    mean, deviation = scale(name, shape)
    stretch = np.resize(np.roll(pool, -first), n)
    return (np.float32(mean) + stretch * np.float32(deviation)).astype(np.float16)


def write(model, path):
    all_tensors, header, offset = tensors(model), {}, 0
    for name, shape in all_tensors.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    header = json.dumps(header, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    numbers = pool()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header)
        for name, shape in all_tensors.items():
            f.write(values(numbers, name, shape).tobytes())
    print(f"{path}: {len(all_tensors)} tensors, {offset / 1e9:.2f} GB")


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2])
