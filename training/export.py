"""Writes the trained parts as one checkpoint under the original single-file names, f16, with its configuration, vocabulary
and merges in the metadata; `load` reads it back.

    python export.py OUT SET nino-emoji.safetensors [--f32]
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
    args = parser.parse_args()
    weights = collect(args.out)
    dtype = torch.float32 if args.f32 else torch.float16
    largest = max(v.abs().max().item() for v in weights.values())
    metadata = {
        "modelspec.title": "nino-emoji", "modelspec.architecture": "nino-emoji", "modelspec.license": "MIT OR Apache-2.0",
        "config": json.dumps(CONFIG), "vocab.json": (args.set / "vocab.json").read_text(), "merges.txt": (args.set / "merges.txt").read_text(),
    }  # fmt: skip
    save_file({k: v.to(dtype).contiguous() for k, v in sorted(weights.items())}, args.file, metadata)
    params = {part: sum(v.numel() for k, v in weights.items() if k.startswith(name)) for part, name in PREFIX.items()}
    print(f"{args.file}: {args.file.stat().st_size} bytes, {len(weights)} tensors, {params}, largest weight {largest:.2f}")


if __name__ == "__main__":
    main()
