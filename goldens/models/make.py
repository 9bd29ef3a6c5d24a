"""Writes the model goldens: tiny random-weight models, inputs, outputs and named intermediates.

    python goldens/models/make.py [name ...]

Pinned: torch 2.12.1 (2.11 gives the same), diffusers 0.42.0, safetensors 0.8.0, numpy 1.26.4.
Reference classes are diffusers' where it has them; their names are mapped to the original authors'
single-file names. TAESD's Flux.2 variant and TAEHV are written out here from their published
description (MIT). Everything runs in f64 on weights that are exact in f16, so a file holds f16
weights and what f64 arithmetic makes of them.

In a file: weights under their checkpoint names in PyTorch's layout; `golden.in.*`, `golden.out.*`
and `golden.at.<module path>` channels-last, as the graphs have them.
"""

import pathlib
import re
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
# Real TAESD weights; only the `taesd_real` goldens need them.
DATA = HERE.parents[1].parent / "shared" / "data" / "taesd"


def fill(module, seed):
    """Random values that keep activations near unit scale, exact in f16."""
    g = torch.Generator().manual_seed(seed)
    for name, p in module.named_parameters():
        z = torch.randn(p.shape, generator=g, dtype=torch.float64)
        if name.endswith("gamma") or (name.endswith("weight") and p.dim() == 1):
            v = 1 + 0.3 * z
        elif p.dim() > 1:
            v = z * p[0].numel() ** -0.5
        else:
            v = 0.2 * z
        p.data = v.half().double()
    return module.eval()


def last(x):
    """Channels last: [b, c, (t,) h, w] -> [b, (t,) h, w, c]."""
    return x.movedim(1, -1).float().contiguous()


def noise(seed, *shape, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=g, dtype=torch.float64) * scale).float().double()


class Watch:
    """Collects the first output of every module whose renamed path is wanted."""

    def __init__(self, module, rename, wanted):
        self.at = {}
        for name, m in module.named_modules():
            path = rename(name + ".weight").removesuffix(".weight")
            if re.fullmatch(wanted, path):
                m.register_forward_hook(self.keeper(path))

    def keeper(self, path):
        def keep(_module, _inputs, out):
            # A hook's return value would replace the output.
            self.at.setdefault(path, out)

        return keep

    def tensors(self):
        return {f"golden.at.{k}": last(v) for k, v in self.at.items()}


def save(name, weights, tensors):
    out = {k: v.half().contiguous() for k, v in weights.items()}
    out |= {k: v.contiguous() for k, v in tensors.items()}
    path = HERE / f"{name}.safetensors"
    save_file(out, path)
    size = path.stat().st_size
    assert size < 1_000_000, f"{name}: {size} bytes"
    print(f"{name}: {len(weights)} weights, {size} bytes")


# ---- AutoencoderKL


def kl_name(n_levels):
    def rename(n):
        n = re.sub(r"decoder\.up_blocks\.(\d+)", lambda m: f"decoder.up.{n_levels - 1 - int(m[1])}", n)
        for a, b in [
            ("encoder.down_blocks.", "encoder.down."),
            (".resnets.", ".block."),
            (".downsamplers.0.", ".downsample."),
            (".upsamplers.0.", ".upsample."),
            ("mid_block.block.0", "mid.block_1"),
            ("mid_block.block.1", "mid.block_2"),
            ("mid_block.attentions.0", "mid.attn_1"),
            ("group_norm.", "norm."),
            ("to_q.", "q."),
            ("to_k.", "k."),
            ("to_v.", "v."),
            ("to_out.0.", "proj_out."),
            ("conv_shortcut", "nin_shortcut"),
            ("conv_norm_out", "norm_out"),
        ]:
            n = n.replace(a, b)
        return n

    return rename


def kl(name, z, quant, linear_attention, seed):
    from diffusers import AutoencoderKL

    widths = (8, 16, 32, 32)
    m = AutoencoderKL(
        down_block_types=["DownEncoderBlock2D"] * 4,
        up_block_types=["UpDecoderBlock2D"] * 4,
        block_out_channels=widths,
        layers_per_block=1,
        latent_channels=z,
        norm_num_groups=4,
        use_quant_conv=quant,
        use_post_quant_conv=quant,
    ).double()
    fill(m, seed)
    rename = kl_name(4)
    wanted = r"(en|de)coder\.(conv_in|mid\.(block_1|attn_1|block_2)|down\.\d\.block\.0|down\.\d\.downsample\.conv|up\.[123]\.block\.\d|up\.[123]\.upsample\.conv)|post_quant_conv"
    watch = Watch(m, rename, wanted)
    x, latent = noise(seed + 1, 1, 3, 24, 32, scale=0.5), noise(seed + 2, 1, z, 3, 4)
    with torch.no_grad():
        moments = m.encode(x).latent_dist.parameters
        image = m.decode(latent).sample
    weights = {}
    for k, v in m.state_dict().items():
        k = rename(k)
        if not linear_attention and re.search(r"attn_1\.(q|k|v|proj_out)\.weight", k):
            v = v[:, :, None, None]
        weights[k] = v
    save(
        name,
        weights,
        {
            "golden.in.x": last(x),
            "golden.in.z": last(latent),
            "golden.out.moments": last(moments),
            "golden.out.x": last(image),
        }
        | watch.tensors(),
    )


def kl_flux2(name, seed):
    """32 groups, as the real one has, so that a file is recognized whole."""
    from diffusers import AutoencoderKLFlux2

    m = AutoencoderKLFlux2(block_out_channels=(32, 32, 32, 32), layers_per_block=1).double()
    fill(m, seed)
    m.bn.running_mean = noise(seed + 3, 128, scale=0.3).half().double()
    m.bn.running_var = (1 + noise(seed + 4, 128, scale=0.3) ** 2).half().double()
    rename = kl_name(4)
    watch = Watch(m, rename, r"(en|de)coder\.(conv_in|mid\.(block_1|attn_1|block_2))")
    x, packed = noise(seed + 1, 1, 3, 32, 32, scale=0.5), noise(seed + 2, 1, 128, 1, 2)
    std = (m.bn.running_var + m.bn.eps).sqrt()[:, None, None]
    z = packed * std + m.bn.running_mean[:, None, None]
    z = z.reshape(1, 32, 2, 2, 1, 2).permute(0, 1, 4, 2, 5, 3).reshape(1, 32, 2, 4)
    with torch.no_grad():
        moments = m.encode(x).latent_dist.parameters
        image = m.decode(z).sample
    mean = moments[:, :32].reshape(1, 32, 2, 2, 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(1, 128, 2, 2)
    mean = (mean - m.bn.running_mean[:, None, None]) / std
    weights = {}
    for k, v in m.state_dict().items():
        # The authors' file has the 1x1 convolutions inside of both halves.
        k = k.replace("post_quant_conv", "decoder.post_quant_conv") if k.startswith("post") else rename(k)
        k = k.replace("quant_conv", "encoder.quant_conv") if k.startswith("quant") else k
        if k != "bn.num_batches_tracked":
            weights[k] = v
    save(
        name,
        weights,
        {
            "golden.in.x": last(x),
            "golden.in.z": last(z),
            "golden.in.packed": last(packed),
            "golden.out.moments": last(moments),
            "golden.out.packed": last(mean),
            "golden.out.x": last(image),
        }
        | watch.tensors(),
    )


# ---- Wan


def wan_name(residual, n_res):
    def rename(n):
        def up(m):
            i, j = int(m[1]), int(m[2])
            return f"decoder.upsamples.{i}.upsamples.{j}." if residual else f"decoder.upsamples.{i * (n_res + 2) + j}."

        n = re.sub(r"decoder\.up_blocks\.(\d+)\.upsamplers?(?:\.0)?\.", rf"decoder.up_blocks.\1.resnets.{n_res + 1}.", n)
        n = re.sub(r"decoder\.up_blocks\.(\d+)\.resnets\.(\d+)\.", up, n)
        n = re.sub(r"encoder\.down_blocks\.(\d+)\.downsampler\.", rf"encoder.down_blocks.\1.resnets.{n_res}.", n)
        n = re.sub(r"encoder\.down_blocks\.(\d+)\.resnets\.(\d+)\.", r"encoder.downsamples.\1.downsamples.\2.", n)
        for a, b in [
            ("encoder.down_blocks.", "encoder.downsamples."),
            ("decoder.up_blocks.", "decoder.upsamples."),
            ("mid_block.resnets.0", "middle.0"),
            ("mid_block.attentions.0", "middle.1"),
            ("mid_block.resnets.1", "middle.2"),
            ("coder.conv_in", "coder.conv1"),
            ("norm_out", "head.0"),
            ("conv_out", "head.2"),
            ("post_quant_conv", "conv2"),
            ("quant_conv", "conv1"),
            (".conv_shortcut", ".shortcut"),
        ]:
            n = n.replace(a, b)
        for a, b in [("norm1", "0"), ("norm2", "3")]:
            n = n.replace(f".{a}.", f".residual.{b}.")
        return re.sub(r"(middle\.\d|samples\.\d+)\.conv([12])\.", lambda m: f"{m[1]}.residual.{2 if m[2] == '1' else 6}.", n)

    return rename


def wan(name, residual, seed):
    from diffusers import AutoencoderKLWan

    n_res, z = 1, 4
    patch = 2 if residual else None
    m = AutoencoderKLWan(
        base_dim=4,
        decoder_base_dim=5 if residual else None,
        z_dim=z,
        dim_mult=[1, 2, 4, 4],
        num_res_blocks=n_res,
        temperal_downsample=[False, True, True],
        latents_mean=[0.0] * z,
        latents_std=[1.0] * z,
        is_residual=residual,
        in_channels=3 * (patch or 1) ** 2,
        out_channels=3 * (patch or 1) ** 2,
        patch_size=patch,
        scale_factor_spatial=16 if residual else 8,
    ).double()
    fill(m, seed)
    rename = wan_name(residual, n_res)
    blocks = r"\d" if residual else r"\d+"
    wanted = rf"(en|de)coder\.(conv1|middle\.[012]|(down|up)samples\.{blocks})"
    watch = Watch(m, rename, wanted)
    scale = 16 if residual else 8
    h, w = (2, 3) if residual else (3, 4)
    # Small enough that the reference's clamp to [-1, 1] leaves most values alone.
    m.decoder.conv_out.weight.data = (m.decoder.conv_out.weight.data / 4).half().double()
    x, latent = noise(seed + 1, 1, 3, 9, h * scale, w * scale, scale=0.5), noise(seed + 2, 1, z, 3, h, w)
    with torch.no_grad():
        moments = m.encode(x).latent_dist.parameters
        image = m.decode(latent).sample
    weights = {rename(k): v for k, v in m.state_dict().items()}
    assert len(weights) == len(m.state_dict())
    save(
        name,
        weights,
        {
            "golden.in.x": last(x),
            "golden.in.z": last(latent),
            "golden.out.moments": last(moments),
            "golden.out.x": last(image),
        }
        | watch.tensors(),
    )


# ---- TAESD


def taesd(name, z, seed):
    from diffusers import AutoencoderTiny

    m = AutoencoderTiny(latent_channels=z, encoder_block_out_channels=[8] * 4, decoder_block_out_channels=[8] * 4).double()
    fill(m, seed)

    def rename(n):
        n = n.replace("encoder.layers.", "encoder.")
        return re.sub(r"decoder\.layers\.(\d+)", lambda k: f"decoder.{int(k[1]) + 1}", n)

    watch = Watch(m, rename, r"(en|de)coder\.\d+")
    x, latent = noise(seed + 1, 1, 3, 24, 32, scale=0.2) + 0.5, noise(seed + 2, 1, z, 3, 4, scale=2.0)
    with torch.no_grad():
        # The class takes and gives [-1, 1], the layers [0, 1].
        code = m.encoder(x * 2 - 1)
        image = m.decoder(latent) / 2 + 0.5
    # The layers before a ReLU or an upsample have no counterpart in a fused graph.
    at = {k: v for k, v in watch.tensors().items() if not re.fullmatch(r"golden\.at\.decoder\.(2|6|11|16)", k)}
    weights = {rename(k): v for k, v in m.state_dict().items()}
    tensors = {
        "golden.in.x": last(x),
        "golden.in.z": last(latent),
        "golden.out.z": last(code),
        "golden.out.x": last(image),
    }
    save(name, weights, tensors | at)


def conv(n_in, n_out, **kw):
    return nn.Conv2d(n_in, n_out, 3, padding=1, **kw)


class TaeBlock(nn.Module):
    """Three convs with a skip; Flux.2's middle blocks add a normalized 1x1 bottleneck in front."""

    def __init__(self, n, pool):
        super().__init__()
        self.conv = nn.Sequential(conv(n, n), nn.ReLU(), conv(n, n), nn.ReLU(), conv(n, n))
        wide = 4 * n
        self.pool = (
            nn.Sequential(nn.Conv2d(n, wide, 1, bias=False), nn.GroupNorm(4, wide), nn.ReLU(), nn.Conv2d(wide, n, 1, bias=False))
            if pool
            else None
        )

    def forward(self, x):
        if self.pool is not None:
            x = x + self.pool(x)
        return F.relu(self.conv(x) + x)


class Clamp(nn.Module):
    def forward(self, x):
        return torch.tanh(x / 3) * 3


def taef2(name, seed):
    n, z = 8, 32
    down = lambda pool: [conv(n, n, stride=2, bias=False)] + [TaeBlock(n, pool) for _ in range(3)]
    encoder = [conv(3, n), TaeBlock(n, False), *down(False), *down(False), *down(True), conv(n, z)]
    up = lambda pool: [TaeBlock(n, pool) for _ in range(3)] + [nn.Upsample(scale_factor=2), conv(n, n, bias=False)]
    decoder = [Clamp(), conv(z, n), nn.ReLU(), *up(True), *up(False), *up(False), TaeBlock(n, False), conv(n, 3)]
    m = nn.ModuleDict({"encoder": nn.Sequential(*encoder), "decoder": nn.Sequential(*decoder)}).double()
    fill(m, seed)
    watch = Watch(m, lambda n: n, r"encoder\.(0|1|11|12)|decoder\.(1|3|4|7|8)")
    x, latent = noise(seed + 1, 1, 3, 24, 32, scale=0.2) + 0.5, noise(seed + 2, 1, z, 3, 4, scale=2.0)
    with torch.no_grad():
        code, image = m["encoder"](x), m["decoder"](latent)
    tensors = {
        "golden.in.x": last(x),
        "golden.in.z": last(latent),
        "golden.out.z": last(code),
        "golden.out.x": last(image),
    }
    save(name, m.state_dict(), tensors | watch.tensors())


# ---- TAEHV: frames are the batch; a memory block also sees the frame before.


class MemBlock(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv = nn.Sequential(conv(2 * n, n), nn.ReLU(), conv(n, n), nn.ReLU(), conv(n, n))

    def forward(self, x):
        past = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
        return F.relu(self.conv(torch.cat([x, past], 1)) + x)


class TPool(nn.Module):
    def __init__(self, n, stride):
        super().__init__()
        self.stride, self.conv = stride, nn.Conv2d(n * stride, n, 1, bias=False)

    def forward(self, x):
        t, c, h, w = x.shape
        return self.conv(x.reshape(t // self.stride, self.stride * c, h, w))


class TGrow(nn.Module):
    def __init__(self, n, stride):
        super().__init__()
        self.conv = nn.Conv2d(n, n * stride, 1, bias=False)

    def forward(self, x):
        _, c, h, w = x.shape
        return self.conv(x).reshape(-1, c, h, w)


def taehv(name, z, patch, seed):
    n, widths, rgb = 8, [16, 8, 6, 6], 3 * patch**2
    encoder = [conv(rgb, n), nn.ReLU()]
    for stride in (2, 2, 1):
        encoder += [TPool(n, stride), conv(n, n, stride=2, bias=False), *[MemBlock(n) for _ in range(3)]]
    encoder += [conv(n, z)]
    decoder = [Clamp(), conv(z, widths[0]), nn.ReLU()]
    for i, grow in enumerate((1, 2, 2)):
        decoder += [MemBlock(widths[i]) for _ in range(3)]
        decoder += [nn.Upsample(scale_factor=2), TGrow(widths[i], grow), conv(widths[i], widths[i + 1], bias=False)]
    decoder += [nn.ReLU(), conv(widths[3], rgb)]
    m = nn.ModuleDict({"encoder": nn.Sequential(*encoder), "decoder": nn.Sequential(*decoder)}).double()
    fill(m, seed)
    h, w, scale = 2, 3, 8 * patch
    x, latent = noise(seed + 1, 8, 3, h * scale, w * scale, scale=0.2) + 0.5, noise(seed + 2, 3, z, h, w, scale=2.0)
    with torch.no_grad():
        code = m["encoder"](F.pixel_unshuffle(x, patch))
        frames = F.pixel_shuffle(m["decoder"](latent), patch)[3:]
    video = lambda v: last(v)[None]
    tensors = {
        "golden.in.x": video(x),
        "golden.in.z": video(latent),
        "golden.out.z": video(code),
        "golden.out.x": video(frames),
    }
    save(name, m.state_dict(), tensors)


# ---- real TAESD weights on a synthetic picture


def picture(size):
    """Smooth colors with a few edges; the Rust test computes the same."""
    y, x = torch.meshgrid(*[torch.arange(size, dtype=torch.float64) / size] * 2, indexing="ij")
    r = 0.5 + 0.4 * torch.sin(6 * x + 2 * y)
    g = 0.5 + 0.4 * torch.cos(5 * y - 3 * x)
    b = torch.where((x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.09, 0.8, 0.2 + 0.3 * x)
    return torch.stack([r, g, b])[None].float().double()


def taesd_real(name, which):
    n = 64
    block = lambda: TaeBlock(n, False)
    down = lambda: [conv(n, n, stride=2, bias=False), block(), block(), block()]
    up = lambda: [block(), block(), block(), nn.Upsample(scale_factor=2), conv(n, n, bias=False)]
    enc = load_file(DATA / f"{which}_encoder.safetensors")
    dec = load_file(DATA / f"{which}_decoder.safetensors")
    z = enc["14.weight"].shape[0]
    encoder = nn.Sequential(conv(3, n), block(), *down(), *down(), *down(), conv(n, z))
    decoder = nn.Sequential(Clamp(), conv(z, n), nn.ReLU(), *up(), *up(), *up(), block(), conv(n, 3))
    encoder.load_state_dict({k: v.double() for k, v in enc.items()})
    decoder.load_state_dict({k: v.double() for k, v in dec.items()})
    tensors = {}
    for size in (32, 128, 512):
        with torch.no_grad():
            code = encoder.double()(picture(size))
            image = decoder.double()(code)
        psnr = -10 * ((image - picture(size)) ** 2).mean().log10()
        print(f"{name} {size}: round trip {psnr:.1f} dB")
        # Every nth pixel of the large ones keeps the file small.
        n = max(size // 256, 1)
        tensors[f"golden.out.z{size}"] = last(code)[:, ::n, ::n]
        tensors[f"golden.out.x{size}"] = last(image)[:, :: size // 32, :: size // 32]
    save(name, {}, tensors)


# ---- CLIP text encoders


def clip(name, hidden_act, seed, mlp=160, layers=3, pad=119, project=True):
    """`project`: whether the pooled vector is projected; SD 2.x's file leaves that out, and pads with zeros."""
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=120,
        hidden_size=128,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=16,
        projection_dim=24,
        hidden_act=hidden_act,
        bos_token_id=118,
        eos_token_id=119,
        pad_token_id=pad,
    )
    m = CLIPTextModelWithProjection(config).double()
    fill(m, seed)
    g = torch.Generator().manual_seed(seed + 1)
    ids = torch.randint(0, 118, (2, 16), generator=g)
    ids[:, 0] = 118
    ends = (9, 15)
    for row, end in enumerate(ends):
        ids[row, end:] = pad
        ids[row, end] = 119
    with torch.no_grad():
        out = m(ids, output_hidden_states=True)
        pooled = out.text_embeds if project else m.text_model(ids).pooler_output
        normed = m.text_model.final_layer_norm(out.hidden_states[-2])
    weights = {k: v for k, v in m.state_dict().items() if v.is_floating_point()}
    if not project:
        del weights["text_projection.weight"]
    end = torch.zeros(2, 1, 16)
    for row, at in enumerate(ends):
        end[row, 0, at] = 1
    tensors = {
        "golden.in.ids": ids.int(),
        "golden.in.end": end,
        "golden.out.pooled": pooled.float(),
        "golden.out.last": out.last_hidden_state.float(),
        "golden.out.penultimate": out.hidden_states[-2].float(),
        "golden.out.penultimate_normed": normed.float(),
    }
    for i in range(layers):
        tensors[f"golden.at.text_model.encoder.layers.{i}"] = out.hidden_states[i + 1].float()
    save(name, weights, tensors)


# ---- CLIP's view of pictures


def clip_vision(name, seed):
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    config = CLIPVisionConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, image_size=12,
                              patch_size=4, projection_dim=24, hidden_act="gelu")  # fmt: skip
    m = CLIPVisionModelWithProjection(config).double()
    fill(m, seed)
    x = noise(seed + 1, 2, 3, 12, 12)
    with torch.no_grad():
        out = m(x, output_hidden_states=True)
    tensors = {
        "golden.in.pixels": last(x),
        "golden.out.last": out.hidden_states[-1].float(),
        "golden.out.penultimate": out.hidden_states[-2].float(),
    }
    for i in range(3):
        tensors[f"golden.at.vision_model.encoder.layers.{i}"] = out.hidden_states[i + 1].float()
    save(name, {k: v for k, v in m.state_dict().items() if v.is_floating_point()}, tensors)


# ---- T5 text encoders


def t5(name, seed, multilingual=False):
    """More than 64 tokens, so that every row of the relative positions is used but the last."""
    from transformers import T5Config, T5EncoderModel, UMT5Config, UMT5EncoderModel

    config = dict(vocab_size=120, d_model=64, d_kv=16, d_ff=96, num_layers=3, num_heads=4,
                  feed_forward_proj="gated-gelu", dropout_rate=0.0)  # fmt: skip
    m = UMT5EncoderModel(UMT5Config(**config)) if multilingual else T5EncoderModel(T5Config(**config))
    fill(m.double(), seed)
    for i in range(3):
        for p in ("q", "k"):
            # Scores are not scaled by the head's width.
            getattr(m.encoder.block[i].layer[0].SelfAttention, p).weight.data /= 2
    g = torch.Generator().manual_seed(seed + 1)
    ids = torch.randint(3, 120, (2, 80), generator=g)
    ids[0, 70:] = 0
    mask = torch.ones(2, 80)
    if multilingual:
        mask[0, 70:] = 0
    with torch.no_grad():
        out = m(ids, attention_mask=mask, output_hidden_states=True)
        normed = m.encoder.final_layer_norm(out.hidden_states[-2])
    weights = {k: v for k, v in m.state_dict().items() if k != "encoder.embed_tokens.weight"}
    tensors = {
        "golden.in.ids": ids.int(),
        "golden.in.mask": ((mask - 1) * 1e30)[:, None, None, :],
        "golden.out.last": out.last_hidden_state.float(),
        "golden.out.penultimate": normed.float(),
    }
    for i in range(2):
        tensors[f"golden.at.encoder.block.{i}"] = out.hidden_states[i + 1].float()
    save(name, weights, tensors)


# ---- Flux and Chroma


def bfl(state):
    """Diffusers' weights under Black Forest Labs' names."""
    out, join = {}, {}
    for k, v in state.items():
        k = re.sub(r"^transformer_blocks", "double_blocks", k)
        k = re.sub(r"^single_transformer_blocks", "single_blocks", k)
        single = k.startswith("single")
        for a, b in [
            ("x_embedder", "img_in"),
            ("context_embedder", "txt_in"),
            ("time_text_embed.timestep_embedder", "time_in"),
            ("time_text_embed.text_embedder", "vector_in"),
            ("time_text_embed.guidance_embedder", "guidance_in"),
            ("linear_1", "in_layer"),
            ("linear_2", "out_layer"),
            ("norm_out.linear", "final_layer.adaLN_modulation.1"),
            ("norm1_context.linear", "txt_mod.lin"),
            ("norm1.linear", "img_mod.lin"),
            ("norm.linear", "modulation.lin"),
            ("attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"),
            ("attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"),
            ("attn.norm_q.weight", "norm.query_norm.scale" if single else "img_attn.norm.query_norm.scale"),
            ("attn.norm_k.weight", "norm.key_norm.scale" if single else "img_attn.norm.key_norm.scale"),
            ("attn.to_out.0", "img_attn.proj"),
            ("attn.to_add_out", "txt_attn.proj"),
            ("ff_context.net.0.proj", "txt_mlp.0"),
            ("ff_context.net.2", "txt_mlp.2"),
            ("ff.net.0.proj", "img_mlp.0"),
            ("ff.net.2", "img_mlp.2"),
        ]:
            k = k.replace(a, b)
        k = k.replace("proj_out", "linear2") if single else re.sub(r"^proj_out", "final_layer.linear", k)
        k = re.sub(r"(distilled_guidance_layer\.norms\.\d+)\.weight", r"\1.scale", k)
        if m := re.fullmatch(r"(.*)attn\.(to_|add_)([qkv])(_proj)?\.(\w+)", k):
            stream = "txt_attn.qkv" if m[2] == "add_" else "img_attn.qkv"
            join.setdefault(f"{m[1]}{'linear1' if single else stream}.{m[5]}", {})["qkv".index(m[3])] = v
        elif m := re.fullmatch(r"(.*)proj_mlp\.(\w+)", k):
            join.setdefault(f"{m[1]}linear1.{m[2]}", {})[3] = v
        elif "adaLN" in k:
            out[k] = torch.cat(v.chunk(2)[::-1])
        else:
            out[k] = v
    return out | {k: torch.cat([v[i] for i in sorted(v)]) for k, v in join.items()}


def flux(name, seed, guidance=None, extra=0, size=(6, 8), depth=(1, 2), chroma=False):
    """Two heads of 32 values and a few blocks. `guidance`: whether it is told that."""
    from diffusers import ChromaTransformer2DModel, FluxTransformer2DModel
    from diffusers.models.transformers import transformer_chroma

    sizes = dict(in_channels=(16 + extra) * 4, out_channels=64, num_layers=depth[0], num_single_layers=depth[1],
                 attention_head_dim=32, num_attention_heads=2, joint_attention_dim=24, axes_dims_rope=(4, 14, 14))  # fmt: skip
    if chroma:
        m = ChromaTransformer2DModel(approximator_hidden_dim=48, approximator_layers=2, **sizes)
        # As many rows as the published model has, of which these blocks use some.
        embed = transformer_chroma.ChromaCombinedTimestepTextProjEmbeddings
        m.time_text_embed = embed(num_channels=16, out_dim=344)
    else:
        m = FluxTransformer2DModel(pooled_projection_dim=20, guidance_embeds=guidance is not None, **sizes)
    fill(m.double(), seed)
    h, w = size
    rows, columns = (h + 1) // 2, (w + 1) // 2
    x, context, y = noise(seed + 1, 2, 16 + extra, h, w), noise(seed + 2, 2, 5, 24), noise(seed + 3, 2, 20)
    even = torch.cat([x, x[:, :, : h % 2]], 2)
    even = torch.cat([even, even[:, :, :, : w % 2]], 3)
    patches = even.reshape(2, -1, rows, 2, columns, 2).permute(0, 2, 4, 1, 3, 5).reshape(2, rows * columns, -1)
    ids = torch.zeros(rows, columns, 3)
    ids[..., 1] += torch.arange(rows)[:, None]
    ids[..., 2] += torch.arange(columns)[None]
    t = torch.tensor([0.9, 0.3], dtype=torch.float64).float().double()
    at = {}

    def keep(path):
        def hook(_module, _inputs, out):
            if path.startswith("single"):
                at[path] = out if torch.is_tensor(out) else torch.cat(out, 1)
            else:
                at[f"{path}.txt"], at[f"{path}.img"] = out

        return hook

    for i, block in enumerate(m.transformer_blocks):
        block.register_forward_hook(keep(f"double_blocks.{i}"))
    for i, block in enumerate(m.single_transformer_blocks):
        block.register_forward_hook(keep(f"single_blocks.{i}"))
    given = dict(hidden_states=patches, encoder_hidden_states=context, timestep=t, img_ids=ids.reshape(-1, 3),
                 txt_ids=torch.zeros(5, 3), return_dict=False)  # fmt: skip
    if not chroma:
        given["pooled_projections"] = y
        given["guidance"] = None if guidance is None else torch.tensor(guidance, dtype=torch.float64)
    with torch.no_grad():
        (out,) = m(**given)
    out = out.reshape(2, rows, columns, 16, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(2, 16, rows * 2, columns * 2)
    tensors = {
        "golden.in.x": last(x),
        "golden.in.t": t.float(),
        "golden.in.context": context.float(),
        "golden.out.x": last(out[:, :, :h, :w]),
    }
    if not chroma:
        tensors["golden.in.y"] = y.float()
    if guidance is not None:
        tensors["golden.in.guidance"] = torch.tensor(guidance)
    tensors |= {f"golden.at.{k}": v.float() for k, v in at.items()}
    save(name, bfl(m.state_dict()), tensors)


# ---- UNet


def unet_name(n_levels, n_res, attention):
    """Diffusers' names to the original's. `attention`: whether each level has transformers."""
    step = n_res + 1

    def rename(n):
        def down(m):
            i, kind, j, rest = int(m[1]), m[2], int(m[3]), m[4]
            if kind == "downsamplers":
                return f"input_blocks.{1 + i * step + n_res}.0.op{rest.removeprefix('.conv')}"
            return f"input_blocks.{1 + i * step + j}.{int(kind == 'attentions')}{rest}"

        def up(m):
            i, kind, j, rest = int(m[1]), m[2], int(m[3]), m[4]
            if kind == "upsamplers":
                return f"output_blocks.{i * step + n_res}.{1 + attention[n_levels - 1 - i]}{rest}"
            return f"output_blocks.{i * step + j}.{int(kind == 'attentions')}{rest}"

        n = re.sub(r"down_blocks\.(\d+)\.(\w+)\.(\d+)(.*)", down, n)
        n = re.sub(r"up_blocks\.(\d+)\.(\w+)\.(\d+)(.*)", up, n)
        for a, b in [
            ("mid_block.resnets.0", "middle_block.0"),
            ("mid_block.attentions.0", "middle_block.1"),
            ("mid_block.resnets.1", "middle_block.2"),
            ("conv_in.", "input_blocks.0.0."),
            ("time_embedding.linear_1", "time_embed.0"),
            ("time_embedding.linear_2", "time_embed.2"),
            ("time_embedding.cond_proj", "time_embed.cond_proj"),
            ("add_embedding.linear_1", "label_emb.0.0"),
            ("add_embedding.linear_2", "label_emb.0.2"),
            ("conv_norm_out", "out.0"),
            ("conv_out", "out.2"),
            ("time_emb_proj", "emb_layers.1"),
            ("conv_shortcut", "skip_connection"),
        ]:
            n = n.replace(a, b)
        if "transformer_blocks" not in n:
            for a, b in [("norm1", "in_layers.0"), ("conv1", "in_layers.2"), ("norm2", "out_layers.0"), ("conv2", "out_layers.3")]:
                n = re.sub(rf"(blocks?\.\d+(?:\.\d+)?)\.{a}\.", rf"\1.{b}.", n)
        return n

    return rename


def unet(name, xl, seed, small=False):
    """`small`: one residual block a level and no middle, as the distilled BK-SDM has them."""
    from diffusers import UNet2DConditionModel

    n_res = 1 if small else 2

    groups, widths = 4, (16, 24 if xl else 32)
    depth = [0, 2] if xl else [1, 0]
    kinds = ["DownBlock2D", "CrossAttnDownBlock2D"] if xl else ["CrossAttnDownBlock2D", "DownBlock2D"]
    extra = (
        dict(addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=10 + 6 * 8, transformer_layers_per_block=[1, 2])
        if xl
        else {}
    )
    m = UNet2DConditionModel(
        in_channels=4,
        out_channels=4,
        block_out_channels=widths,
        layers_per_block=n_res,
        mid_block_type=None if small else "UNetMidBlock2DCrossAttn",
        down_block_types=kinds,
        up_block_types=[k.replace("Down", "Up") for k in reversed(kinds)],
        cross_attention_dim=20,
        attention_head_dim=[2, 4] if xl else 2,
        use_linear_projection=xl,
        norm_num_groups=groups,
        **extra,
    ).double()
    fill(m, seed)
    rename = unet_name(2, n_res, [d > 0 for d in depth])
    # An odd size: the way down rounds up.
    x, context = noise(seed + 1, 2, 4, 7, 6), noise(seed + 2, 2, 5, 20)
    t = torch.tensor([981.0, 17.0], dtype=torch.float64)
    tensors = {"golden.in.x": last(x), "golden.in.t": t.float(), "golden.in.context": context.float()}
    kwargs = {}
    if xl:
        text, ids = noise(seed + 3, 2, 10), torch.tensor([[1024.0, 768, 0, 8, 1024, 1024]] * 2).double()
        kwargs["added_cond_kwargs"] = {"text_embeds": text, "time_ids": ids}
        sizes = m.add_time_proj(ids.flatten()).reshape(2, -1)
        tensors["golden.in.y"] = torch.cat([text, sizes], -1).float()
    found = {}
    watched = {
        "input_blocks.1": m.down_blocks[0].resnets[0] if xl else m.down_blocks[0].attentions[0],
        "input_blocks.3": m.down_blocks[0].downsamplers[0],
        "input_blocks.4": m.down_blocks[1].attentions[0] if xl else m.down_blocks[1].resnets[0],
        "middle_block": m.mid_block,
        "output_blocks.2": m.up_blocks[0].upsamplers[0],
        "output_blocks.5": m.up_blocks[1],
    }
    if small:
        watched = {
            "input_blocks.2": m.down_blocks[0].downsamplers[0],
            "input_blocks.3": m.down_blocks[1].resnets[0],
            "output_blocks.1": m.up_blocks[0].upsamplers[0],
            "output_blocks.3": m.up_blocks[1],
        }
    for path, module in watched.items():
        def keep(_m, _i, out, path=path):
            found[path] = out[0] if isinstance(out, tuple) else out

        module.register_forward_hook(keep)
    with torch.no_grad():
        out = m(x, t, context, **kwargs).sample
    tensors["golden.out.x"] = last(out)
    tensors |= {f"golden.at.{k}": last(v) for k, v in found.items()}
    weights = {rename(k): v for k, v in m.state_dict().items()}
    assert len(weights) == len(m.state_dict())
    save(name, weights, tensors)


def unet_kin(name, seed, widths, depth, mid, n_res=2, n_in=4, linear=False, sizes=0, guidance=None):
    """The UNet's kin: SD 2.x, the refiner, inpainting, and the distilled ones. `mid` is diffusers' name of the middle
    block, `sizes` how many numbers the label holds beside the pooled text, `guidance` the size of its embedding."""
    from diffusers import UNet2DConditionModel

    kinds = ["CrossAttnDownBlock2D" if d else "DownBlock2D" for d in depth]
    extra = {}
    if sizes:
        extra = dict(addition_embed_type="text_time", addition_time_embed_dim=8,
                     projection_class_embeddings_input_dim=10 + sizes * 8)  # fmt: skip
    m = UNet2DConditionModel(
        in_channels=n_in,
        out_channels=4,
        block_out_channels=widths,
        layers_per_block=n_res,
        down_block_types=kinds,
        up_block_types=[k.replace("Down", "Up") for k in reversed(kinds)],
        mid_block_type=mid,
        cross_attention_dim=20,
        # Heads are counted here; SD 2.x and XL make them 8 wide, SD 1.x has always two.
        attention_head_dim=[w // 8 for w in widths] if linear else 2,
        transformer_layers_per_block=[max(d, 1) for d in depth],
        use_linear_projection=linear,
        norm_num_groups=4,
        time_cond_proj_dim=guidance,
        **extra,
    ).double()
    fill(m, seed)
    rename = unet_name(len(widths), n_res, [d > 0 for d in depth])
    x, context = noise(seed + 1, 2, n_in, 6, 8), noise(seed + 2, 2, 5, 20)
    t = torch.tensor([999.0, 3.0], dtype=torch.float64)
    tensors = {"golden.in.x": last(x), "golden.in.t": t.float(), "golden.in.context": context.float()}
    kwargs = {}
    if sizes:
        text, ids = noise(seed + 3, 2, 10), torch.tensor([[768.0, 1024, 0, 8, 6, 7][:sizes]] * 2).double()
        kwargs["added_cond_kwargs"] = {"text_embeds": text, "time_ids": ids}
        tensors["golden.in.y"] = torch.cat([text, m.add_time_proj(ids.flatten()).reshape(2, -1)], -1).float()
    if guidance:
        kwargs["timestep_cond"] = noise(seed + 4, 2, guidance)
        tensors["golden.in.guidance"] = kwargs["timestep_cond"].float()
    found = {}
    first, n = m.down_blocks[0], len(widths) * (n_res + 1)
    watched = {
        "input_blocks.1": first.attentions[0] if depth[0] else first.resnets[0],
        f"input_blocks.{n_res + 1}": first.downsamplers[0],
        f"output_blocks.{n - 1}": m.up_blocks[-1],
    }
    if m.mid_block is not None:
        watched["middle_block"] = m.mid_block
    for path, module in watched.items():
        def keep(_m, _i, out, path=path):
            found[path] = out[0] if isinstance(out, tuple) else out

        module.register_forward_hook(keep)
    with torch.no_grad():
        out = m(x, t, context, **kwargs).sample
    tensors["golden.out.x"] = last(out)
    tensors |= {f"golden.at.{k}": last(v) for k, v in found.items()}
    weights = {rename(k): v for k, v in m.state_dict().items()}
    assert len(weights) == len(m.state_dict())
    save(name, weights, tensors)


CROSS, PLAIN = "UNetMidBlock2DCrossAttn", "UNetMidBlock2D"

GOLDENS = {
    "clip_l": lambda n: clip(n, "quick_gelu", 900),
    "clip_g": lambda n: clip(n, "gelu", 950),
    "clip_h": lambda n: clip(n, "gelu", 970, mlp=96, layers=4, pad=0, project=False),
    "clip_vision": lambda n: clip_vision(n, 980),
    "t5": lambda n: t5(n, 2000),
    "umt5": lambda n: t5(n, 2100, multilingual=True),
    "flux_dev": lambda n: flux(n, 2200, guidance=[3.5, 2.0]),
    "flux_schnell": lambda n: flux(n, 2300, size=(5, 7), depth=(2, 1)),
    "flux_control": lambda n: flux(n, 2400, guidance=[10.0, 4.0], extra=16, depth=(1, 1)),
    "chroma": lambda n: flux(n, 2500, guidance=[0.0, 0.0], depth=(2, 2), chroma=True),
    "unet_sd": lambda n: unet(n, False, 1000),
    "unet_sdxl": lambda n: unet(n, True, 1100),
    "unet_bk": lambda n: unet(n, False, 1200, small=True),
    "unet_sd2": lambda n: unet_kin(n, 1200, (16, 24), [1, 0], CROSS, linear=True),
    "unet_refiner": lambda n: unet_kin(n, 1300, (8, 16, 16), [0, 2, 0], CROSS, linear=True, sizes=5),
    "unet_inpaint": lambda n: unet_kin(n, 1400, (16, 16), [1, 0], CROSS, n_in=9),
    "unet_lcm": lambda n: unet_kin(n, 1600, (16, 16), [1, 0], CROSS, guidance=12),
    "unet_bk_base": lambda n: unet_kin(n, 1500, (16, 24), [1, 1], CROSS, n_res=1),
    "unet_ssd": lambda n: unet_kin(n, 1700, (8, 16), [0, 2], PLAIN, linear=True, sizes=6),
    "kl_sd": lambda n: kl(n, 4, True, False, 100),
    "kl_flux": lambda n: kl(n, 16, False, True, 200),
    "kl_flux2": lambda n: kl_flux2(n, 250),
    "wan21": lambda n: wan(n, False, 300),
    "wan22": lambda n: wan(n, True, 400),
    "taesd": lambda n: taesd(n, 4, 500),
    "taesd3": lambda n: taesd(n, 16, 550),
    "taef2": lambda n: taef2(n, 600),
    "taehv": lambda n: taehv(n, 16, 1, 700),
    "taew2_2": lambda n: taehv(n, 48, 2, 800),
    "taesd_real": lambda n: taesd_real(n, "taesd"),
    "taef1_real": lambda n: taesd_real(n, "taef1"),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or GOLDENS:
        GOLDENS[name](name)
