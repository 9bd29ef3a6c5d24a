"""The sampler that other engines are held against: plain Euler on the rectified flow, with classifier-free guidance.

    python sample.py MODEL.safetensors "a smiling sun" picture.png --seed 0 --steps 20 --cfg 4

Noise is torch.randn of the CPU generator at the seed. Time runs from 1 (noise) to 0 in even steps.
"""

import argparse
from pathlib import Path

import torch

from tokenizer import Tokenizer


def tokens(source, prompts):
    encode = Tokenizer(source).padded
    return torch.tensor([encode(p) for p in prompts]), torch.tensor(encode(""))


def noise(n, seed):
    return torch.randn(n, 4, 32, 32, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def sample(model, prompt_tokens, steps=20, cfg=4.0, seed=0, device="cpu", x=None):
    """prompt_tokens: (tokens [b, 32], empty [32]) -> latents [b, 4, 32, 32]."""
    prompts, empty = (t.to(device) for t in prompt_tokens)
    x = (noise(len(prompts), seed) if x is None else x).to(device)
    context = model.text_model(torch.cat([prompts, empty.expand_as(prompts)]))
    times = torch.linspace(1, 0, steps + 1, dtype=torch.float64).tolist()
    for t, t_next in zip(times, times[1:]):
        flow = model.diffusion_model(torch.cat([x, x]), torch.full((2 * len(x),), 1000 * t, device=device), context).float()
        guided, free = flow.chunk(2)
        x = x + (t_next - t) * (free + cfg * (guided - free))
    return x


def main():
    from safetensors import safe_open

    from export import load
    from scenes import save_sheet

    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("prompt")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--cfg", type=float, default=4.0)
    args = parser.parse_args()
    with safe_open(args.model, "pt") as file:
        metadata = file.metadata()
    model, _, decoder = load(args.model)
    z = sample(model, tokens(metadata, [args.prompt]), args.steps, args.cfg, args.seed)
    save_sheet(decoder(z).clamp(0, 1), args.picture, 1, 256)


if __name__ == "__main__":
    main()
