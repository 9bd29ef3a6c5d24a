"""Compares our encoders with ggml's: relative RMSE (RMSE / RMS of the values), ours / ggml's, and ggml's speed.

    pip install gguf==0.19.0 libggml-python==0.20.2.post1 numpy==1.26.4 safetensors==0.8.0 torch==2.12.1
    cargo build --release -p nino-dtype --examples
    python goldens/dtype/compare.py target/release/examples/codec_pipe [folder of .safetensors ...]

Exits with 1 where ours is worse by more than 0.1%.
"""

import ctypes
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from safetensors.torch import load_file

NAMES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def ggml():
    lib = ctypes.CDLL(Path(find_spec("libggml").origin).parent / "lib64" / "libggml-base.so")
    f = lib.ggml_quantize_chunk
    f.restype = ctypes.c_size_t
    f.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]

    def quantize(values, dtype):
        block_len, block_bytes = GGML_QUANT_SIZES[dtype]
        out = np.empty(values.size // block_len * block_bytes, np.uint8)
        start = time.perf_counter()
        f(dtype.value, values.ctypes.data, out.ctypes.data, 0, values.size // 256, 256, None)
        return out, values.nbytes / (time.perf_counter() - start) / 1e9

    return quantize


def data(folders):
    rng = np.random.default_rng(7)
    n = 1 << 19
    yield "gaussian", rng.normal(0, 0.02, n).astype(np.float32)
    yield "student-t3", (0.01 * rng.standard_t(3, n)).astype(np.float32)
    yield "1 + gaussian", rng.normal(1, 0.1, n).astype(np.float32)
    yield "tiny", rng.normal(0, 1e-5, n).astype(np.float32)
    for folder in folders:
        tensors = [t for f in sorted(Path(folder).glob("*.safetensors")) for t in load_file(f).values()]
        rows = [t.float().flatten().numpy() for t in tensors if t.dim() >= 2]
        yield Path(folder).name, np.concatenate([r[: r.size // 256 * 256] for r in rows])


def rmse(values, blob, dtype):
    decoded = dequantize(blob, dtype).astype(np.float64)
    return np.sqrt(np.mean((decoded - values) ** 2) / np.mean(values.astype(np.float64) ** 2))


def main():
    pipe, folders = sys.argv[1], sys.argv[2:]
    quantize = ggml()
    worse = False
    print(f"{'values':>14} {'type':>5} {'ggml':>10} {'ours':>10} {'ratio':>7} {'ggml GB/s':>10}")
    for label, values in data(folders):
        for name in NAMES:
            dtype = GGMLQuantizationType[name]
            blob, speed = quantize(values, dtype)
            ran = subprocess.run([pipe, name], input=values.tobytes(), stdout=subprocess.PIPE, check=True)
            theirs = rmse(values, blob, dtype)
            ours = rmse(values, np.frombuffer(ran.stdout, np.uint8), dtype)
            worse |= ours > theirs * 1.001
            print(f"{label:>14} {name:>5} {theirs:10.3e} {ours:10.3e} {ours / theirs:7.4f} {speed:10.3f}", flush=True)
    sys.exit(int(worse))


if __name__ == "__main__":
    main()
