"""Writes packed.safetensors: weights of nvfp4, mxfp8 and bitsandbytes' nf4 as their own libraries write and read them.

    pip install torch==2.11.0 numpy==1.26.4 safetensors==0.8.0 comfy-kitchen==0.2.26 bitsandbytes==0.48.1
    python goldens/weights/packed.py

`expected.<layer>` is what the library makes of `<layer>.weight`, in f32.
"""

import json
from pathlib import Path

import bitsandbytes.functional as bnb
import comfy_kitchen as ck
import torch
from safetensors.torch import save_file


def marker(name):
    return torch.frombuffer(bytearray(json.dumps({"format": name}).encode()), dtype=torch.uint8)


torch.manual_seed(0)
out = {}
# Rows and columns of several tiles; rows of very different sizes, as outliers make them.
w = torch.randn(144, 512) * torch.linspace(0.01, 1.0, 144)[:, None]
scale = w.abs().amax() / (448 * 6)
q, blocks = ck.quantize_nvfp4(w, scale)
out |= {"a.weight": q, "a.weight_scale": blocks, "a.weight_scale_2": scale, "a.comfy_quant": marker("nvfp4")}
out["expected.a"] = ck.dequantize_nvfp4(q, scale, blocks, torch.float32)

w = torch.randn(130, 96)
q, blocks = ck.quantize_mxfp8(w)
out |= {"b.weight": q, "b.weight_scale": blocks.view(torch.uint8), "b.comfy_quant": marker("mxfp8")}
out["expected.b"] = ck.dequantize_mxfp8(q, blocks, torch.float32)

# Enough blocks that the factors' own factors are several; and one without those.
for name, nested in (("c", True), ("d", False)):
    w = torch.randn(40, 512)
    q, state = bnb.quantize_4bit(w, quant_type="nf4", compress_statistics=nested)
    out |= {f"{name}.weight": q} | {f"{name}.weight.{k}": v for k, v in state.as_dict(packed=True).items()}
    out[f"expected.{name}"] = bnb.dequantize_4bit(q, state)

save_file({k: v.contiguous() for k, v in out.items()}, Path(__file__).parent / "packed.safetensors")
