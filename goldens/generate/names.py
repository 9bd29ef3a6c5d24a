"""Writes `<model>.txt`, names and shapes of single-file checkpoints: python goldens/generate/names.py COMFY [model ...]

`sd15` and `sdxl` are the published sizes; `tiny_*` are as small as the families' text widths allow. Lines are
`name shape`; `{a-b}` stands for every number from a to b.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "weights"))

import oracle  # noqa: E402, F401
import comfy.clip_model  # noqa: E402
import comfy.ops  # noqa: E402
import torch  # noqa: E402
import comfy.text_encoders.llama  # noqa: E402
import comfy.text_encoders.qwen3vl  # noqa: E402
import comfy.text_encoders.qwen_vl  # noqa: E402
import comfy.text_encoders.t5  # noqa: E402
from comfy.ldm.chroma.model import Chroma  # noqa: E402
from comfy.ldm.flux.model import Flux  # noqa: E402
from comfy.ldm.krea2.model import SingleStreamDiT  # noqa: E402
from comfy.ldm.lumina.model import NextDiT  # noqa: E402
from comfy.ldm.models.autoencoder import AutoencoderKL  # noqa: E402
from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel  # noqa: E402
from comfy.ldm.qwen_image.model import QwenImageTransformer2DModel  # noqa: E402
from comfy.ldm.wan.model import VaceWanModel, WanModel  # noqa: E402
from comfy.ldm.wan.vae import WanVAE  # noqa: E402
from names import fold  # noqa: E402

HERE = Path(__file__).parent
OPS = comfy.ops.disable_weight_init


def unet(width, mult, depth, context, middle=None, adm=None, linear=False, n_res=2, n_in=4):
    heads = dict(num_heads=-1, num_head_channels=64) if linear else dict(num_heads=8)
    m = UNetModel(
        image_size=32, in_channels=n_in, out_channels=4, model_channels=width, num_res_blocks=[n_res] * len(mult),
        channel_mult=mult, transformer_depth=[d for d in depth for _ in range(n_res)],
        transformer_depth_output=[d for d in depth for _ in range(n_res + 1)],
        transformer_depth_middle=depth[-1] if middle is None else middle, context_dim=context, adm_in_channels=adm,
        num_classes="sequential" if adm else None, use_linear_in_transformer=linear, use_spatial_transformer=True,
        legacy=False, operations=OPS, device="meta", **heads,
    )  # fmt: skip
    return {f"model.diffusion_model.{k}": v.shape for k, v in m.state_dict().items()}


def vae(width, mult, z=4, prefix="first_stage_model."):
    config = dict(double_z=True, z_channels=z, resolution=256, in_channels=3, out_ch=3, ch=width, ch_mult=mult,
                  num_res_blocks=2, attn_resolutions=[], dropout=0.0)  # fmt: skip
    m = AutoencoderKL(ddconfig=config, embed_dim=z)
    # Flux's goes without.
    return {f"{prefix}{k}": v.shape for k, v in m.state_dict().items() if z == 4 or "quant_conv" not in k}


# As small as ComfyUI's fixed width of heads allows, with a narrow text.
FLUX = dict(hidden_size=256, mlp_ratio=4.0, num_heads=2, depth=2, depth_single_blocks=2, axes_dim=[16, 56, 56],
            theta=10000, patch_size=2, qkv_bias=True, context_in_dim=64, txt_ids_dims=[], vec_in_dim=768)  # fmt: skip


def scales(shapes):
    """Norms as the published files call them."""
    return {k.replace("_norm.weight", "_norm.scale"): v for k, v in shapes.items()}


def flux(guidance, n_in=16):
    m = Flux(in_channels=n_in, out_channels=16, guidance_embed=guidance, operations=OPS, device="meta", **FLUX)
    return scales({f"model.diffusion_model.{k}": v.shape for k, v in m.state_dict().items()})


def chroma():
    m = Chroma(in_channels=64, out_channels=64, in_dim=64, out_dim=256, hidden_dim=96, n_layers=2, operations=OPS,
               device="meta", **FLUX)  # fmt: skip
    shapes = scales({f"model.diffusion_model.{k}": v.shape for k, v in m.state_dict().items()})
    return {k.replace("norms.0.weight", "norms.0.scale").replace("norms.1.weight", "norms.1.scale"): v for k, v in shapes.items()}


def t5(prefix, kind="t5", vocab=32128):
    config = dict(num_layers=2, d_model=64, d_kv=64, num_heads=2, d_ff=96, dense_act_fn="gelu_pytorch_tanh",
                  is_gated_act=True, model_type=kind, vocab_size=vocab)  # fmt: skip
    m = comfy.text_encoders.t5.T5(config, None, "meta", OPS)
    return {f"{prefix}{k}": v.shape for k, v in m.state_dict().items()}


def qwen3(prefix, **sizes):
    m = comfy.text_encoders.llama.Qwen3_4B(sizes, None, "meta", OPS)
    return {f"{prefix}{k}": v.shape for k, v in m.state_dict().items()}


def llm(kind, vocab=512):
    """A language model of full width with two layers and few words, under its own names."""
    m = getattr(comfy.text_encoders.llama, kind)(dict(num_hidden_layers=2, vocab_size=vocab), None, "meta", OPS)
    return {k: v.shape for k, v in m.state_dict().items() if "lm_head." not in k}


def z_image(dim, heads, context, layers):
    m = NextDiT(in_channels=16, dim=dim, n_heads=heads, n_layers=layers, cap_feat_dim=context, axes_dims=[32, 48, 48],
                ffn_dim_multiplier=8.0 / 3.0, qk_norm=True, z_image_modulation=True, pad_tokens_multiple=32,
                operations=OPS, device="meta")  # fmt: skip
    return {f"model.diffusion_model.{k}": v.shape for k, v in m.state_dict().items()}


def klein(dim, heads, context, depth, guidance=False):
    m = Flux(in_channels=128, out_channels=128, hidden_size=dim, mlp_ratio=3.0, num_heads=heads, depth=depth[0],
             depth_single_blocks=depth[1], axes_dim=[32, 32, 32, 32], theta=2000, patch_size=1, qkv_bias=False,
             context_in_dim=context, txt_ids_dims=[3], vec_in_dim=None, guidance_embed=guidance,
             global_modulation=True, mlp_silu_act=True, ops_bias=False, operations=OPS, device="meta")  # fmt: skip
    return scales({f"model.diffusion_model.{k}": v.shape for k, v in m.state_dict().items()})


def qwen_image(heads, context, layers):
    m = QwenImageTransformer2DModel(num_attention_heads=heads, joint_attention_dim=context, num_layers=layers,
                                    operations=OPS, device="meta")  # fmt: skip
    return {f"model.diffusion_model.{k}": v.shape for k, v in m.state_dict().items()}


def krea2(dim, heads, kv_heads, layers, text, text_heads):
    m = SingleStreamDiT(features=dim, heads=heads, kvheads=kv_heads, layers=layers, txtdim=text, txtheads=text_heads,
                        txtkvheads=text_heads, operations=OPS, device="meta")  # fmt: skip
    return {f"model.diffusion_model.{k}": v.shape for k, v in m.state_dict().items()}


def llama(prefix, kind, vision=None, **sizes):
    """A language model; `vision` are the sizes of the half that sees."""
    if vision is not None:
        tower = comfy.text_encoders.qwen_vl.Qwen2VLVisionTransformer(device="meta", ops=OPS, **vision)
    comfy.text_encoders.llama.qwen_vl.Qwen2VLVisionTransformer = lambda **_: tower
    m = getattr(comfy.text_encoders.llama, kind)(sizes, None, "meta", OPS)
    return {f"{prefix}{k}": v.shape for k, v in m.state_dict().items()}


def qwen3_vision(prefix, **sizes):
    """The half of Qwen3-VL that sees."""
    config = comfy.text_encoders.qwen3vl.QWEN3VL_VISION_COMMON | sizes
    m = comfy.text_encoders.qwen3vl.Qwen3VLVisionModel(config, device="meta", ops=OPS)
    return {f"{prefix}{k}": v.shape for k, v in m.state_dict().items()}


def wan(n_in=16, n_out=16, layers=2, vace=False, **more):
    """The transformer with a narrow text, and heads as wide as ComfyUI takes for granted."""
    sizes = dict(in_dim=n_in, out_dim=n_out, dim=256, ffn_dim=384, num_heads=2, num_layers=layers, text_dim=64,
                 operations=OPS, device="meta")  # fmt: skip
    m = VaceWanModel(vace_layers=1, vace_in_dim=96, **sizes) if vace else WanModel(**sizes, **more)
    return {f"model.diffusion_model.{k}": v.shape for k, v in m.state_dict().items()}


def wan_vae(width):
    m = WanVAE(dim=width, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2, attn_scales=[],
               temperal_downsample=[False, True, True], image_channels=3, conv_out_channels=3, dropout=0.0)  # fmt: skip
    return {f"vae.{k}": v.shape for k, v in m.state_dict().items()}


def clip(prefix, width, layers, mlp):
    config = dict(num_hidden_layers=layers, hidden_size=width, num_attention_heads=width // 64, intermediate_size=mlp,
                  hidden_act="gelu", max_position_embeddings=77, eos_token_id=49407)  # fmt: skip
    m = comfy.clip_model.CLIPTextModel(config, None, "meta", OPS)
    return {f"{prefix}{k}": v.shape for k, v in m.state_dict().items() if k != "text_projection.weight"}


def open_clip(prefix, width, layers, mlp):
    """The same network under OpenCLIP's names."""
    shapes = {"positional_embedding": (77, width), "token_embedding.weight": (49408, width),
              "text_projection": (width, width)}  # fmt: skip
    for norm in ["ln_final"] + [f"transformer.resblocks.{i}.{n}" for i in range(layers) for n in ("ln_1", "ln_2")]:
        shapes |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
    for i in range(layers):
        at = f"transformer.resblocks.{i}"
        shapes |= {f"{at}.attn.in_proj_weight": (3 * width, width), f"{at}.attn.in_proj_bias": (3 * width,)}
        for name, n_out, n_in in [("attn.out_proj", width, width), ("mlp.c_fc", mlp, width), ("mlp.c_proj", width, mlp)]:
            shapes |= {f"{at}.{name}.weight": (n_out, n_in), f"{at}.{name}.bias": (n_out,)}
    return {f"{prefix}{k}": v for k, v in shapes.items()}


SD1_TEXT, SD2_TEXT = "cond_stage_model.transformer.", "cond_stage_model.model."
XL_TEXT = ("conditioner.embedders.0.transformer.", "conditioner.embedders.1.model.")
SMALL_VAE = vae(32, [1, 2, 4, 4])
FLUX_VAE = vae(32, [1, 2, 4, 4], 16, "vae.")
T5_TEXT = "text_encoders.t5xxl.transformer."
QWEN3_TEXT = "text_encoders.qwen3_4b.transformer."
QWEN3_VL_TEXT = "text_encoders.qwen3vl_4b.transformer."
QWEN25_TEXT = "text_encoders.qwen25_7b.transformer."
# Heads of the half that sees are 80 wide, and the eighth layer is the first to see the whole
# picture.
SMALL_VISION = dict(hidden_size=160, output_hidden_size=64, intermediate_size=96, num_heads=2, num_layers=8)
# Of Qwen3-VL's, the sixth, twelfth and eighteenth layer are shown to the half that reads, too.
SMALL_SIGHT = dict(hidden_size=256, intermediate_size=96, out_hidden_size=64, depth=18, deepstack_visual_indexes=[5, 11, 17])
WIDE_VISION = dict(hidden_size=1280, output_hidden_size=3584, num_layers=8)
# The layers that klein looks at are fixed: 9, 18 and 27.
SMALL_QWEN3 = dict(hidden_size=64, intermediate_size=96, num_attention_heads=2, num_key_value_heads=1)
FLUX2_VAE = vae(32, [1, 2, 4, 4], 32, "vae.") | {f"vae.bn.{n}": (128,) for n in ("running_mean", "running_var")}
MODELS = {
    "sd15": unet(320, [1, 2, 4, 4], [1, 1, 1, 0], 768, 1) | vae(128, [1, 2, 4, 4]) | clip(SD1_TEXT, 768, 12, 3072),
    "sdxl": unet(320, [1, 2, 4], [0, 2, 10], 2048, None, 2816, True)
    | vae(128, [1, 2, 4, 4]) | clip(XL_TEXT[0], 768, 12, 3072) | open_clip(XL_TEXT[1], 1280, 32, 5120),
    "tiny_sd1": unet(32, [1, 2], [1, 0], 768, 1, n_res=1) | SMALL_VAE | clip(SD1_TEXT, 768, 3, 256),
    "tiny_sd2": unet(64, [1, 2], [1, 0], 1024, 1, None, True, 1) | SMALL_VAE | open_clip(SD2_TEXT, 1024, 3, 256),
    "tiny_sdxl": unet(64, [1, 2], [0, 2], 2048, None, 2816, True, 1)
    | SMALL_VAE | clip(XL_TEXT[0], 768, 3, 256) | open_clip(XL_TEXT[1], 1280, 3, 256),
    "tiny_refiner": unet(64, [1, 2], [0, 1], 1280, None, 2560, True, 1)
    | SMALL_VAE | open_clip("conditioner.embedders.0.model.", 1280, 3, 256),
    "tiny_flux": flux(True) | FLUX_VAE | clip("text_encoders.clip_l.transformer.", 768, 3, 256) | t5(T5_TEXT),
    "tiny_chroma": chroma() | FLUX_VAE | t5(T5_TEXT),
    "tiny_z_image": z_image(256, 2, 64, 2) | FLUX_VAE | qwen3(QWEN3_TEXT, num_hidden_layers=4, **SMALL_QWEN3),
    "wide_z_image": z_image(3840, 30, 2560, 2) | qwen3(QWEN3_TEXT, num_hidden_layers=3),
    "tiny_klein": klein(256, 2, 192, (2, 2)) | FLUX2_VAE | qwen3(QWEN3_TEXT, num_hidden_layers=28, **SMALL_QWEN3),
    "wide_klein": klein(3072, 24, 7680, (2, 2)),
    "tiny_qwen_image": qwen_image(2, 64, 2)
    | wan_vae(8) | llama(QWEN25_TEXT, "Qwen25_7BVLI", vision=SMALL_VISION, num_hidden_layers=2, **SMALL_QWEN3),
    "wide_qwen_image": qwen_image(24, 3584, 2)
    | llama(QWEN25_TEXT, "Qwen25_7BVLI", vision=WIDE_VISION, num_hidden_layers=2, vocab_size=152064),
    "tiny_flux2": klein(256, 2, 192, (2, 2), guidance=True)
    | FLUX2_VAE | llama("text_encoders.mistral3_24b.transformer.", "Mistral3Small24B", num_hidden_layers=30,
                        vocab_size=2000, final_norm=False, **SMALL_QWEN3),
    "wide_flux2": klein(6144, 48, 15360, (1, 1), guidance=True),
    "tiny_krea2": krea2(256, 2, 1, 2, 64, 2)
    | wan_vae(8) | qwen3(QWEN3_VL_TEXT, num_hidden_layers=36, **SMALL_QWEN3) | qwen3_vision(f"{QWEN3_VL_TEXT}visual.", **SMALL_SIGHT),
    # Encoders alone: see `encoders.py`.
    "wide_qwen3_8b": llm("Qwen3_8B"),
    "wide_mistral3": llm("Mistral3Small24B"),
    "wide_qwen3_vl": qwen3_vision("", **comfy.text_encoders.qwen3vl.QWEN3VL_VISION["qwen3vl_4b"], out_hidden_size=2560),
    "wide_krea2": krea2(6144, 48, 12, 2, 2560, 20),
    "tiny_wan": wan() | wan_vae(8) | t5("text_encoders.umt5xxl.transformer.", "umt5", 512),
    "tiny_wan_low": wan(layers=3),
    "tiny_wan_i2v": wan(36, model_type="i2v"),
    "tiny_wan22_i2v": wan(36),
    "tiny_wan_vace": wan(vace=True),
    "tiny_wan_5b": wan(48, 48),
}  # fmt: skip

for model in oracle.ARGS or MODELS:
    shapes = MODELS[model]
    rows = [(tuple(k.split(".")), "x".join(map(str, s)) or "scalar") for k, s in shapes.items()]
    with open(HERE / f"{model}.txt", "w") as f:
        f.writelines(f"{'.'.join(name)} {shape}\n" for name, shape in fold(rows))
    print(model, len(shapes), sum(torch.Size(s).numel() for s in shapes.values()))
