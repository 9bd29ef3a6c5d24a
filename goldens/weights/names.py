"""Writes names/*.txt: names and shapes of models as diffusers 0.42.0 and transformers 5.17.0 have them.

Lines are `name shape`; `{a-b}` stands for every number from a to b. No weights are made (meta device).
Run from this folder: python names.py [model ...]
"""

import os
import sys

import diffusers
import torch
import transformers

SD1 = dict(cross_attention_dim=768, attention_head_dim=8)
SD2 = dict(cross_attention_dim=1024, attention_head_dim=[5, 10, 20, 20], use_linear_projection=True)
CROSS, PLAIN = ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D"), ("DownBlock2D", "UpBlock2D")


def unet(channels, attention, **kw):
    down = tuple((CROSS if a else PLAIN)[0] for a in attention)
    up = tuple((CROSS if a else PLAIN)[1] for a in reversed(attention))
    return lambda: diffusers.UNet2DConditionModel(block_out_channels=channels, down_block_types=down,
                                                  up_block_types=up, **kw)


FOUR = dict(channels=(320, 640, 1280, 1280), attention=(1, 1, 1, 0))
SDXL = dict(cross_attention_dim=2048, use_linear_projection=True, addition_embed_type="text_time",
            addition_time_embed_dim=256, attention_head_dim=[5, 10, 20])
REFINER = dict(cross_attention_dim=1280, use_linear_projection=True, addition_embed_type="text_time",
               addition_time_embed_dim=256, attention_head_dim=[6, 12, 24, 24], transformer_layers_per_block=4)
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
           block_out_channels=(128, 256, 512, 512), layers_per_block=2)
T5 = dict(d_model=4096, d_ff=10240, num_layers=24, num_heads=64, feed_forward_proj="gated-gelu")


def clip(hidden, layers, heads, project):
    config = transformers.CLIPTextConfig(hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=layers,
                                         num_attention_heads=heads, projection_dim=hidden)
    return transformers.CLIPTextModelWithProjection(config) if project else transformers.CLIPTextModel(config)


def wan(d, ffn, layers, heads, channels, out, image=None):
    return diffusers.WanTransformer3DModel(num_attention_heads=heads, attention_head_dim=d // heads, ffn_dim=ffn,
                                           num_layers=layers, in_channels=channels, out_channels=out,
                                           image_dim=image, added_kv_proj_dim=d if image else None)


MODELS = {
    "sd1": unet(**FOUR, **SD1),
    "sd2": unet(**FOUR, **SD2),
    "sdxl": unet((320, 640, 1280), (0, 1, 1), transformer_layers_per_block=[1, 2, 10],
                 projection_class_embeddings_input_dim=2816, **SDXL),
    "sdxl_refiner": unet((384, 768, 1536, 1536), (0, 1, 1, 0), projection_class_embeddings_input_dim=2560, **REFINER),
    "bk_sdm_base": unet(**FOUR, layers_per_block=1, **SD1),
    "bk_sdm_small": unet(**FOUR, layers_per_block=1, mid_block_type=None, **SD1),
    "bk_sdm_tiny": unet((320, 640, 1280), (1, 1, 1), layers_per_block=1, mid_block_type=None, **SD1),
    "flux_dev": lambda: diffusers.FluxTransformer2DModel(guidance_embeds=True),
    "flux_schnell": lambda: diffusers.FluxTransformer2DModel(guidance_embeds=False),
    "chroma": lambda: diffusers.ChromaTransformer2DModel(),
    "z_image": lambda: diffusers.ZImageTransformer2DModel(),
    "qwen_image": lambda: diffusers.QwenImageTransformer2DModel(),
    "wan21_t2v_1b": lambda: wan(1536, 8960, 30, 12, 16, 16),
    "wan21_i2v_14b": lambda: wan(5120, 13824, 40, 40, 36, 16, 1280),
    "wan22_i2v_14b": lambda: wan(5120, 13824, 40, 40, 36, 16),
    "wan22_5b": lambda: wan(3072, 14336, 30, 24, 48, 48),
    "sd_vae": lambda: diffusers.AutoencoderKL(latent_channels=4, **VAE),
    "flux_vae": lambda: diffusers.AutoencoderKL(latent_channels=16, use_quant_conv=False, use_post_quant_conv=False, **VAE),
    "wan21_vae": lambda: diffusers.AutoencoderKLWan(),
    "wan22_vae": lambda: diffusers.AutoencoderKLWan(base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True,
                                                    in_channels=12, out_channels=12, patch_size=2,
                                                    latents_mean=[0.0] * 48, latents_std=[1.0] * 48,
                                                    scale_factor_spatial=16),
    "taesd": lambda: diffusers.AutoencoderTiny(),
    "taef1": lambda: diffusers.AutoencoderTiny(latent_channels=16),
    "clip_l": lambda: clip(768, 12, 12, False),
    "clip_h23": lambda: clip(1024, 23, 16, False),
    "clip_g": lambda: clip(1280, 32, 20, True),
    "t5_xxl": lambda: transformers.T5EncoderModel(transformers.T5Config(vocab_size=32128, **T5)),
    "umt5_xxl": lambda: transformers.UMT5EncoderModel(transformers.UMT5Config(vocab_size=256384, **T5)),
    "qwen3_4b": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, tie_word_embeddings=False)),
    "qwen25_vl_7b": lambda: transformers.Qwen2_5_VLForConditionalGeneration(transformers.Qwen2_5_VLConfig(
        text_config=dict(vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
                         num_attention_heads=28, num_key_value_heads=4),
        vision_config=dict(hidden_size=1280, out_hidden_size=3584, intermediate_size=3420, depth=32, num_heads=16))),
    # As published: one that writes down speech, and one with what training needs.
    "wav2vec2_large": lambda: transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True)),
    "wav2vec2_base": lambda: transformers.Wav2Vec2ForPreTraining(transformers.Wav2Vec2Config()),
}


def fold(rows):
    """Joins rows that differ in one number of their names and form a gapless range."""
    longest = max(len(name) for name, _ in rows)
    for at in range(longest):
        groups, kept = {}, []
        for name, shape in rows:
            if at < len(name) and name[at].isdigit():
                groups.setdefault((name[:at], name[at + 1:], shape), []).append(int(name[at]))
            else:
                kept.append((name, shape))
        for (head, tail, shape), numbers in groups.items():
            numbers.sort()
            if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
                kept.append((head + (f"{{{numbers[0]}-{numbers[-1]}}}",) + tail, shape))
            else:
                kept.extend((head + (str(n),) + tail, shape) for n in numbers)
        rows = kept
    return sorted(rows)


if __name__ == "__main__":
    os.makedirs("names", exist_ok=True)
    for model in sys.argv[1:] or MODELS:
        make = MODELS[model]
        with torch.device("meta"):
            state = make().state_dict()
        # Files keep this prefix, whatever the module tree of the day.
        if model in ("clip_l", "clip_h23") and "text_model.final_layer_norm.weight" not in state:
            state = {f"text_model.{k}": v for k, v in state.items()}
        rows = [(tuple(k.split(".")), "x".join(map(str, v.shape)) or "scalar") for k, v in state.items()]
        with open(f"names/{model}.txt", "w") as f:
            f.writelines(f"{'.'.join(name)} {shape}\n" for name, shape in fold(rows))
        print(model, len(state))
