"""Writes the trained parts as one checkpoint under the original single-file names, f16, with its configuration, vocabulary
and merges in the metadata; `load` reads it back.

    python export.py OUT SET nino-emoji.safetensors [--f32] [--q8]

`--q8` rounds the weights that can be stored as Q8_0 (blocks of 32 along the inputs) to the values that Q8_0 holds, so
that this file and a quantized one give the same pictures.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from model import CONFIG, PREFIX, Denoiser, taesd_decoder, taesd_encoder


def rename(name):
    return next(new + name[len(old) :] for old, new in PREFIX.items() if name.startswith(old))


def collect(out):
    """The trained weights by checkpoint name."""
    weights = load_file(out / "vae.safetensors")
    for path in sorted(out.glob("denoiser-*.safetensors")):
        weights |= load_file(path)
    return {rename(k): v for k, v in weights.items()}


def quantizable(name, v):
    """Matrices and convolutions whose inputs come in blocks of 32; the networks' first and last layers stay f16."""
    return v.ndim >= 2 and v.shape[1] % 32 == 0 and v.shape[0] >= 32 and "position_embedding" not in name


def round_q8(v):
    """What Q8_0 keeps of a weight [out, in, ..]: per 32 inputs an f16 scale and int8 values."""
    blocks = v.float().movedim(1, -1)
    rows = blocks.reshape(-1, 32)
    scale = rows.abs().amax(1, keepdim=True) / 127
    q = torch.where(scale > 0, rows / scale, 0).round()
    return (q * scale.half().float()).reshape(blocks.shape).movedim(-1, 1)


def load(path):
    """(denoiser, encoder, decoder) in f32 from an exported file."""
    with safe_open(path, "pt") as file:
        config = json.loads(file.metadata()["config"])
    weights = {k: v.float() for k, v in load_file(path).items()}
    modules = Denoiser(config), taesd_encoder(), taesd_decoder()
    prefixes = [{"text_model.": PREFIX["text_model."], "diffusion_model.": PREFIX["diffusion_model."]}, {"": PREFIX["encoder."]}, {"": PREFIX["decoder."]}]
    for module, prefix in zip(modules, prefixes):
        module.load_state_dict({short + k[len(long) :]: v for k, v in weights.items() for short, long in prefix.items() if k.startswith(long)})
        module.eval().requires_grad_(False)
    return modules


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("set", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--f32", action="store_true")
    parser.add_argument("--q8", action="store_true")
    args = parser.parse_args()
    weights = collect(args.out)
    if args.q8:
        weights = {k: round_q8(v) if quantizable(k, v) else v.half().float() for k, v in weights.items()}
        args.f32 = True
    sizes = [v.numel() * 34 // 32 if quantizable(k, v) else v.numel() * (2 if v.ndim > 1 else 4) for k, v in weights.items()]
    dtype = torch.float32 if args.f32 else torch.float16
    largest = max(v.abs().max().item() for v in weights.values())
    metadata = {
        "modelspec.title": "nino-emoji", "modelspec.architecture": "nino-emoji", "modelspec.license": "MIT OR Apache-2.0",
        "config": json.dumps(CONFIG), "vocab.json": (args.set / "vocab.json").read_text(), "merges.txt": (args.set / "merges.txt").read_text(),
    }  # fmt: skip
    save_file({k: v.to(dtype).contiguous() for k, v in sorted(weights.items())}, args.file, metadata)
    params = {part: sum(v.numel() for k, v in weights.items() if k.startswith(name)) for part, name in PREFIX.items()}
    print(f"{args.file}: {args.file.stat().st_size} bytes, {len(weights)} tensors, {params}, largest weight {largest:.2f}, as Q8_0 {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
