"""Runs ComfyUI on a whole checkpoint and keeps what it made, to be compared with `nino generate`.

    python goldens/generate/weights.py sd15 sd15.safetensors
    python goldens/generate/full.py COMFY sd15.safetensors out/ --size 512 [--sampler euler ...] [--picture]
    python goldens/generate/full.py COMFY sd15.safetensors out/ --size 512 --nino target/release/nino

`--lora FILE` (`lora.py` makes one) applies that at strength 0.8 in both. The first call writes `out/comfy-<size>-<sampler>.safetensors` (ComfyUI's own latent format), the second makes the same
latents with `nino generate --save-latent` and prints the normalized mean square error of each.
"""

import argparse
import subprocess
import time
from pathlib import Path

RUNS = {"euler": "normal", "dpmpp_2m": "karras", "euler_ancestral": "normal", "dpmpp_2m_sde": "karras"}
STRENGTH = 0.8


def parse(args):
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--size", type=int, default=512)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--sampler", nargs="*", default=list(RUNS))
    p.add_argument("--picture", action="store_true")
    p.add_argument("--lora", type=Path)
    p.add_argument("--nino", type=Path)
    return p.parse_args(args)


def file(args, who, sampler):
    return args.out / f"{who}-{args.size}-{sampler}{'-lora' if args.lora else ''}"


def comfy(args, oracle):
    import torch
    from safetensors.torch import save_file

    start = time.time()
    model, clip, vae = oracle.load(args.checkpoint)
    if args.lora:
        from comfy.sd import load_lora_for_models
        from safetensors.torch import load_file

        model, clip = load_lora_for_models(model, clip, load_file(args.lora), STRENGTH, STRENGTH)
    positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)
    print(f"loaded and encoded in {time.time() - start:.0f} s", flush=True)
    for name in args.sampler:
        start = time.time()
        size = (args.size, args.size)
        latent = oracle.sample(model, positive, negative, sampler=name, scheduler=RUNS[name], size=size, steps=args.steps)
        out = {"latent_tensor": latent.contiguous(), "latent_format_version_0": torch.tensor([])}
        if args.picture:
            out["picture"] = vae.decode(latent).contiguous()
        save_file(out, f"{file(args, 'comfy', name)}.safetensors")
        print(f"{name}: std {latent.std():.3f}, {time.time() - start:.0f} s", flush=True)


def nino(args, oracle):
    from safetensors.numpy import load_file

    for name in args.sampler:
        theirs = load_file(f"{file(args, 'comfy', name)}.safetensors")
        made = file(args, "nino", name)
        command = [args.nino.resolve(), "generate", oracle.PROMPT, "--negative", oracle.NEGATIVE, "--model", args.checkpoint,
                   "--seed", oracle.SEED, "--steps", args.steps, "--cfg", 7, "--sampler", name, "--scheduler", RUNS[name],
                   "--size", f"{args.size}x{args.size}", "--save-latent", f"{made}.safetensors", "-o", f"{made}.png",
                   "--device", "cpu", "--json"]  # fmt: skip
        if args.lora:
            command += ["--lora", f"{args.lora}:{STRENGTH}"]
        subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)
        ours, want = load_file(f"{made}.safetensors")["latent_tensor"], theirs["latent_tensor"]
        assert ours.shape == want.shape, (ours.shape, want.shape)
        line = f"{name}/{RUNS[name]}: NMSE {((ours - want) ** 2).sum() / (want**2).sum():.2e}, largest {abs(ours - want).max():.2e}"
        if "picture" in theirs:
            line += f", picture {psnr(f'{made}.png', theirs['picture'][0]):.1f} dB"
        print(line, flush=True)


def psnr(path, want):
    import numpy as np
    from PIL import Image

    ours = np.asarray(Image.open(path).convert("RGB"), dtype=np.float64)
    want = (want * 255).clip(0, 255).astype(np.uint8).astype(np.float64)
    return 10 * np.log10(255**2 / max(((ours - want) ** 2).mean(), 1e-9))


if __name__ == "__main__":
    import oracle

    args = parse(oracle.ARGS)
    args.out.mkdir(exist_ok=True)
    (nino if args.nino else comfy)(args, oracle)
