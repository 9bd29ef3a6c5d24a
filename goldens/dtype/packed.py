"""Writes the goldens of the block types that ggml has not: what their own libraries make of given codes and factors.

    pip install torch==2.11.0 numpy==1.26.4 comfy-kitchen==0.2.26 bitsandbytes==0.48.1
    python goldens/dtype/packed.py

decode_<dtype>.bin: n blocks, factors before codes, then their n * block_len values as f32.
"""

from pathlib import Path

import bitsandbytes.functional as bnb
import comfy_kitchen as ck
import numpy as np
import torch
from comfy_kitchen.float_utils import to_blocked

HERE = Path(__file__).parent
N = 24


def write(name, factors, codes, values):
    blocks = np.concatenate([np.ascontiguousarray(a).view(np.uint8).reshape(N, -1) for a in (factors, codes)], axis=1)
    (HERE / f"decode_{name}.bin").write_bytes(blocks.tobytes() + values.float().numpy().tobytes())


rng = np.random.default_rng(0)
codes = rng.integers(0, 256, (N, 32), dtype=np.uint8)

# Zeros, subnormals, the largest, NaN, negative ones; the others are random.
factors = rng.integers(0, 256, (N, 4), dtype=np.uint8)
factors[:2] = [[0x00, 0x80, 0x01, 0x07], [0x7E, 0x7F, 0xFF, 0x08]]
tiles = to_blocked(torch.from_numpy(factors), flatten=False).view(torch.float8_e4m3fn)
write("nvfp4", factors, codes, ck.dequantize_nvfp4(torch.from_numpy(codes), torch.ones(()), tiles, torch.float32))

factors = rng.integers(64, 192, (N, 1), dtype=np.uint8)
factors[:5, 0] = [0, 1, 254, 255, 127]
tiles = to_blocked(torch.from_numpy(factors), flatten=False).view(torch.float8_e8m0fnu)
values = torch.from_numpy(codes).view(torch.float8_e4m3fn)
write("mxfp8", factors, codes, ck.dequantize_mxfp8(values, tiles, torch.float32))

factors = (rng.normal(0, 1, N) * np.exp2(rng.integers(-20, 20, N))).astype(np.float32)
factors[:3] = [0.0, -0.0, 1.0]
state = bnb.QuantState(torch.from_numpy(factors), torch.Size((N, 64)), bnb.get_4bit_type("nf4", device="cpu"), 64, "nf4", torch.float32)
write("nf4", factors, codes, bnb.dequantize_4bit(torch.from_numpy(codes.reshape(-1, 1)), state))
