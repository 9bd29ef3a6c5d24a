"""Writes the golden model files of nino-weights: small, every format and encoding.

Pinned: torch==2.11.0 numpy gguf==0.19.0 safetensors==0.8.0 diffusers==0.42.0
Run from this folder: python make.py
"""

import collections
import io
import json
import os
import sys
import types
import zipfile

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

torch.manual_seed(7)
rng = np.random.default_rng(7)
expected = {}


def keep(file, tensors):
    for name, t in tensors.items():
        t = torch.from_numpy(np.ascontiguousarray(t)) if isinstance(t, np.ndarray) else t
        expected[f"{file}/{name}"] = t.to(torch.float32).contiguous().clone()


def safetensors_all():
    base = torch.randn(3, 5)
    tensors = {
        "f64": base.double(), "f32": base, "f16": base.half(), "bf16": base.bfloat16(),
        "e4m3": base.to(torch.float8_e4m3fn), "e5m2": base.to(torch.float8_e5m2),
        "i64": torch.arange(4), "i32": torch.arange(4, dtype=torch.int32),
        "i16": torch.arange(4, dtype=torch.int16), "i8": torch.arange(4, dtype=torch.int8),
        "u8": torch.arange(4, dtype=torch.uint8), "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4),
    }
    save_file(tensors, "all.safetensors", {"format": "pt", "note": "every type"})
    keep("all.safetensors", {k: tensors[k] for k in ["f64", "f32", "f16", "bf16", "e4m3", "e5m2", "scalar"]})


def safetensors_sharded():
    os.makedirs("sharded", exist_ok=True)
    a, b = {"a.weight": torch.randn(2, 3)}, {"b.weight": torch.randn(4), "c.weight": torch.randn(1, 2)}
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    save_file(a, f"sharded/{names[0]}")
    save_file(b, f"sharded/{names[1]}")
    weights = {k: names[0] for k in a} | {k: names[1] for k in b}
    with open("sharded/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {"total_size": 48}, "weight_map": weights}, f)
    keep("sharded", a | b)


def scaled_fp8():
    w = torch.randn(4, 8) * 3
    scale = w.abs().max() / 448
    q = (w / scale).to(torch.float8_e4m3fn)
    rows = w.abs().amax(1) / 448
    per_row = (w / rows[:, None]).to(torch.float8_e4m3fn)
    save_file({
        "model.diffusion_model.scaled_fp8": torch.zeros(2, dtype=torch.float8_e4m3fn),
        "model.diffusion_model.x.weight": q, "model.diffusion_model.x.scale_weight": scale.reshape(1),
        "model.diffusion_model.x.scale_input": torch.tensor([1.0]), "model.diffusion_model.x.bias": torch.ones(4),
    }, "scaled_marker.safetensors")
    keep("scaled_marker.safetensors", {"model.diffusion_model.x.weight": q.float() * scale})
    marker = torch.frombuffer(bytearray(b'{"format": "float8_e4m3fn"}'), dtype=torch.uint8)
    save_file({
        "x.weight": q, "x.weight_scale": scale, "x.input_scale": torch.tensor(1.0), "x.comfy_quant": marker,
        "y.weight": per_row, "y.weight_scale": rows[:, None].clone(), "z.weight": q.clone(),
    }, "scaled_comfy.safetensors",
        {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": {"x": {"format": "float8_e4m3fn"}}})})
    keep("scaled_comfy.safetensors", {"x.weight": q.float() * scale, "y.weight": per_row.float() * rows[:, None],
                                      "z.weight": q.float()})
    save_file({"x.weight": q, "x.comfy_quant": torch.frombuffer(bytearray(b'{"format": "nvfp4"}'), dtype=torch.uint8)},
              "scaled_nvfp4.safetensors")


K = gguf.GGMLQuantizationType


def random_blocks(kind, rows, cols):
    """Random bytes with the half-precision scales of each block kept small and finite."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    n = rows * cols // block
    data = rng.integers(0, 256, (n, size), dtype=np.uint8)
    halves = {K.Q2_K: [80, 82], K.Q3_K: [108], K.Q4_K: [0, 2], K.Q5_K: [0, 2], K.Q6_K: [208], K.IQ4_NL: [0], K.IQ4_XS: [0]}
    for at in halves[kind]:
        scale = rng.uniform(0.001, 0.02, n).astype(np.float16)
        data[:, at:at + 2] = scale.view(np.uint8).reshape(n, 2)
    return data.reshape(rows, -1)


def gguf_all():
    w = gguf.GGUFWriter("all.gguf", "flux")
    w.add_uint8("t.u8", 1); w.add_int8("t.i8", -1); w.add_uint16("t.u16", 2); w.add_int16("t.i16", -2)
    w.add_uint32("t.u32", 3); w.add_int32("t.i32", -3); w.add_uint64("t.u64", 4); w.add_int64("t.i64", -4)
    w.add_float32("t.f32", 0.5); w.add_float64("t.f64", -0.5); w.add_bool("t.bool", True); w.add_string("t.str", "grüße")
    w.add_array("t.array", [1, 2, 3]); w.add_token_list(["<s>", "a", "b"]); w.add_token_scores([0.0, -1.0, -2.0])
    tensors = {}
    base = rng.standard_normal((2, 256), dtype=np.float32)
    for kind in [K.F32, K.F16, K.BF16, K.Q4_0, K.Q4_1, K.Q5_0, K.Q5_1, K.Q8_0]:
        name = kind.name.lower()
        data = gguf.quants.quantize(base, kind)
        w.add_tensor(name, data, raw_dtype=kind)
        tensors[name] = gguf.quants.dequantize(data, kind)
    for kind in [K.Q2_K, K.Q3_K, K.Q4_K, K.Q5_K, K.Q6_K, K.IQ4_NL, K.IQ4_XS]:
        name = kind.name.lower()
        data = random_blocks(kind, 2, 256)
        w.add_tensor(name, data, raw_dtype=kind)
        tensors[name] = gguf.quants.dequantize(data, kind)
    # A convolution flattened to whole blocks, its shape kept beside it.
    conv = rng.standard_normal((4, 8, 3, 3), dtype=np.float32)
    flat = gguf.quants.quantize(conv.reshape(-1, 32), K.Q8_0)
    w.add_tensor("conv", flat, raw_dtype=K.Q8_0)
    w.add_array("comfy.gguf.orig_shape.conv", [4, 8, 3, 3])
    tensors["conv"] = gguf.quants.dequantize(flat, K.Q8_0).reshape(4, 8, 3, 3)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    keep("all.gguf", tensors)


class Callback:  # stands for a training framework's class
    def __init__(self):
        self.best = 1.5


def torch_files():
    module = types.ModuleType("pytorch_lightning.callbacks")
    module.ModelCheckpoint = Callback
    Callback.__module__, Callback.__qualname__ = "pytorch_lightning.callbacks", "ModelCheckpoint"
    sys.modules["pytorch_lightning"] = types.ModuleType("pytorch_lightning")
    sys.modules["pytorch_lightning.callbacks"] = module

    base = torch.randn(6, 4)
    state = collections.OrderedDict(
        f64=base.double(), f32=base, f16=base.half(), bf16=base.bfloat16(), slice=base[2:4], transposed=base.t(),
        channels_last=torch.randn(1, 3, 2, 2).to(memory_format=torch.channels_last),
        parameter=torch.nn.Parameter(torch.randn(3)), scalar=torch.tensor(1.5), i64=torch.arange(3),
        empty=torch.zeros(0, 2))
    real = {k: v.detach() for k, v in state.items() if k not in ("i64",)}
    torch.save(dict(state, e4m3=base.to(torch.float8_e4m3fn)), "zip.pt")
    keep("zip.pt", dict(real, e4m3=base.to(torch.float8_e4m3fn)))
    torch.save(state, "legacy.pt", _use_new_zipfile_serialization=False)
    keep("legacy.pt", real)
    ckpt = {"state_dict": collections.OrderedDict({"a.weight": base}), "epoch": 3, "global_step": 7,
            "pytorch-lightning_version": "1.4.2", "callbacks": {Callback: {"best": np.float64(0.25)}}, "hook": Callback(),
            "optimizer_states": [{"state": {0: {"exp_avg": base}}}]}
    torch.save(ckpt, "lightning.ckpt")
    keep("lightning.ckpt", {"a.weight": base})
    torch.save({"big": torch.zeros(1).expand(1000)}, "expanded.pt")
    single_tensors()

    class Evil:
        def __reduce__(self):
            return os.system, ("echo this must never run > evil.txt",)
    torch.save({"a": base[:1].clone(), "b": Evil()}, "evil.pt")

    plain = io.BytesIO()
    torch.save({"a": torch.zeros(64)}, plain)
    with zipfile.ZipFile(plain) as z, zipfile.ZipFile("deflated.pt", "w", zipfile.ZIP_DEFLATED) as out:
        for member in z.namelist():
            out.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), z.read(member), zipfile.ZIP_DEFLATED)


def single_tensors():
    """A latent saved without a dictionary around it, in both formats; value i is i / 50 - 1."""
    latent = torch.arange(96).reshape(1, 4, 4, 6) / 50 - 1
    torch.save(latent, "single.pt")
    torch.save(latent, "single_legacy.pt", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    for make in [safetensors_all, safetensors_sharded, scaled_fp8, gguf_all, torch_files]:
        make()
    save_file(expected, "expected.safetensors")
