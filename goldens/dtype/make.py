"""Writes the goldens of `nino-dtype`: what ggml's reference and torch make of given bytes.

    pip install gguf==0.19.0 numpy==1.26.4 torch==2.12.1
    python goldens/dtype/make.py

decode_<dtype>.bin: n encoded blocks, then their n * block_len values as f32.
encode_<dtype>.bin: n f32 values, then their n codes by torch.
"""

from pathlib import Path

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

HERE = Path(__file__).parent
# Where each block type keeps its f16 scales.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
}
# zero, -0, smallest subnormal, a negative subnormal, one, largest, infinity, quiet and signalling
# NaN
SPECIAL = [0x0000, 0x8000, 0x0001, 0x83FF, 0x3C00, 0x7BFF, 0x7C00, 0x7E00, 0xFC01]


def write(name, *arrays):
    (HERE / f"{name}.bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))


def blocks(rng):
    for name, offsets in SCALES.items():
        dtype = GGMLQuantizationType[name]
        block_len, block_bytes = GGML_QUANT_SIZES[dtype]
        n = 12 if block_len == 256 else 24
        data = rng.integers(0, 256, (n, block_bytes), dtype=np.uint8)
        for i, bits in enumerate(SPECIAL):
            at = offsets[i % len(offsets)]
            data[i, at : at + 2] = np.frombuffer(np.uint16(bits).tobytes(), np.uint8)
        with np.errstate(all="ignore"):
            write(f"decode_{name.lower()}", data, dequantize(data, dtype).astype(np.float32))


def floats(rng):
    wild = rng.integers(0, 2**32, 600, dtype=np.uint32).view(np.float32)
    near = rng.normal(0, 1, 600).astype(np.float32) * np.exp2(rng.integers(-30, 18, 600)).astype(np.float32)
    edge = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.996, 65520, 2.0**-24, 2.0**-25, 2.0**-26])
    x = torch.from_numpy(np.concatenate([wild, near, edge]))
    for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16)]:
        write(f"encode_{name}", x.numpy(), x.to(dtype).view(torch.int16).numpy())
    for name, dtype, largest in [("fp8_e4m3", torch.float8_e4m3fn, 448.0), ("fp8_e5m2", torch.float8_e5m2, 57344.0)]:
        codes = torch.arange(256, dtype=torch.uint8)
        values = codes.view(dtype).float()
        write(f"decode_{name}", codes.numpy(), values.numpy())
        # Every code, every midpoint between two, and the floats beside each midpoint. Finite values
        # past the largest are left out: there we saturate and torch does not.
        finite = values[values.isfinite()].sort().values.double()
        mid = ((finite[1:] + finite[:-1]) / 2).float()
        up, down = torch.full_like(mid, torch.inf), torch.full_like(mid, -torch.inf)
        y = torch.cat([values, mid, mid.nextafter(up), mid.nextafter(down), x])
        y = y[~(y.isfinite() & (y.abs() > largest))]
        write(f"encode_{name}", y.numpy(), y.to(dtype).view(torch.uint8).numpy())


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    blocks(rng)
    floats(rng)
