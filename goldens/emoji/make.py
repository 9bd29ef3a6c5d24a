"""What the reference sampler (training/sample.py) makes of one prompt with nino-emoji.

Packages: torch 2.11.0, safetensors 0.8.0, pillow 13.0.0. The f16 export is named by NINO_EMOJI (default nino-emoji.safetensors).
Writes f16.safetensors (that file's weights) and q8.safetensors (weights first rounded to what Q8_0 holds, as export.py
rounds them: every matrix and convolution whose inputs come in blocks of 32, position embedding and networks' ends apart).

tokens [2, 32] (prompt, empty), context [2, 32, 256], noise [1, 4, 32, 32], flow [2, 4, 32, 32] (prompt, empty, at t = 1),
latent_20 (20 steps, guidance 4), latent_4 (4 steps, guidance 2.5). sun.png is q8's latent_20, decoded.
"""

import os
import sys
from pathlib import Path

import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "training"))
import sample  # noqa: E402
from export import load, quantizable, round_q8  # noqa: E402

PROMPT, SEED = "a smiling sun wearing sunglasses", 7


@torch.no_grad()
def record(model, prompt, empty):
    tokens, noise = torch.cat([prompt, empty[None]]), sample.noise(1, SEED)
    context = model.text_model(tokens)
    flow = model.diffusion_model(torch.cat([noise, noise]), torch.full((2,), 1000.0), context)
    latents = {f"latent_{n}": sample.sample(model, (prompt, empty), n, cfg, SEED) for n, cfg in ((20, 4.0), (4, 2.5))}
    tensors = {"tokens": tokens.int(), "context": context, "noise": noise, "flow": flow} | latents
    return {k: v.contiguous() for k, v in tensors.items()}


def main():
    path = os.environ.get("NINO_EMOJI", "nino-emoji.safetensors")
    with safe_open(path, "pt") as file:
        prompt, empty = sample.tokens(file.metadata(), [PROMPT])
    model, _, decoder = load(path)
    metadata = {"prompt": PROMPT, "seed": str(SEED), "torch": torch.__version__}
    save_file(record(model, prompt, empty), HERE / "f16.safetensors", metadata)
    for name, p in model.named_parameters():
        if quantizable(name, p):
            p.copy_(round_q8(p))
    q8 = record(model, prompt, empty)
    save_file(q8, HERE / "q8.safetensors", metadata)
    with torch.no_grad():
        for p in decoder.parameters():
            if p.ndim > 1:
                p.copy_(round_q8(p) if quantizable("", p) else p.half())
        picture = decoder(q8["latent_20"])[0].clamp(0, 1).movedim(0, -1) * 255
    Image.fromarray(picture.byte().numpy()).save(HERE / "sun.png")


if __name__ == "__main__":
    main()
