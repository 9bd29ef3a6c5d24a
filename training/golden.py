"""Writes what the reference sampler makes of one prompt, for tests of other engines.

    python golden.py nino-emoji-q8.safetensors golden.safetensors golden.png

Holds tokens [2, 32] (prompt, empty), context [2, 32, 256], noise [1, 4, 32, 32], flow (first step, guided and free),
latent_4 and latent_20 (after 4 and 20 steps) and picture [256, 256, 3] u8 of the latter. Use the file of `export.py --q8` for
a model that ships quantized, so that both hold the same weights.
"""

import argparse
from pathlib import Path

import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

import sample
from export import load

PROMPT, SEED, CFG = "a smiling sun wearing sunglasses", 0, 3.0


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    with safe_open(args.model, "pt") as file:
        prompt, empty = sample.tokens(file.metadata(), [PROMPT])
    model, _, decoder = load(args.model)
    tokens, noise = torch.cat([prompt, empty[None]]), sample.noise(1, SEED)
    context = model.text_model(tokens)
    flow = model.diffusion_model(torch.cat([noise, noise]), torch.full((2,), 1000.0), context)
    latents = {n: sample.sample(model, (prompt, empty), n, CFG, SEED) for n in (4, 20)}
    picture = (decoder(latents[20])[0].clamp(0, 1) * 255).round().byte().permute(1, 2, 0).contiguous()
    Image.fromarray(picture.numpy()).save(args.picture)
    tensors = {"tokens": tokens.int(), "context": context, "noise": noise, "flow": flow, "latent_4": latents[4], "latent_20": latents[20], "picture": picture}
    save_file({k: v.contiguous() for k, v in tensors.items()}, args.file, {"prompt": PROMPT, "seed": str(SEED), "cfg": str(CFG), "torch": torch.__version__})


if __name__ == "__main__":
    main()
