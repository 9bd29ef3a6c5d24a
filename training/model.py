"""The three networks of nino-emoji in plain PyTorch, with the parameter names of the families they belong to:
TAESD (madebyollin/taesd), the latent-diffusion UNet of Stable Diffusion (CompVis), and CLIP's text model (Hugging Face)."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "unet": {"in_channels": 4, "model_channels": 96, "channel_mult": [1, 2, 2], "num_res_blocks": 1, "attention_levels": [1, 2],
             "num_head_channels": 32, "context_dim": 256, "use_linear_in_transformer": True},
    "text": {"vocab_size": 3072, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024,
             "max_position_embeddings": 32, "hidden_act": "quick_gelu"},
    "vae": {"latent_channels": 4, "width": 64, "scale": 1.0, "shift": 0.0},
    "prediction": "flow", "steps": 20, "cfg": 4.0, "size": 256,
}  # fmt: skip


# TAESD


def conv(c_in, c_out, **options):
    return nn.Conv2d(c_in, c_out, 3, padding=1, **options)


class Clamp(nn.Module):
    def forward(self, x):
        return torch.tanh(x / 3) * 3


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Sequential(conv(c, c), nn.ReLU(), conv(c, c), nn.ReLU(), conv(c, c))

    def forward(self, x):
        return F.relu(self.conv(x) + x)


def taesd_encoder(z=4, c=64):
    level = lambda: [conv(c, c, stride=2, bias=False), Block(c), Block(c), Block(c)]
    return nn.Sequential(conv(3, c), Block(c), *level(), *level(), *level(), conv(c, z))


def taesd_decoder(z=4, c=64):
    level = lambda: [Block(c), Block(c), Block(c), nn.Upsample(scale_factor=2), conv(c, c, bias=False)]
    return nn.Sequential(Clamp(), conv(z, c), nn.ReLU(), *level(), *level(), *level(), Block(c), conv(c, 3))


# UNet


def timestep_embedding(t, d):
    half = d // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
    angles = t[:, None].float() * freqs
    return torch.cat([angles.cos(), angles.sin()], -1)


class ResBlock(nn.Module):
    def __init__(self, c_in, d_emb, c):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(32, c_in), nn.SiLU(), conv(c_in, c))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(d_emb, c))
        self.out_layers = nn.Sequential(nn.GroupNorm(32, c), nn.SiLU(), nn.Identity(), conv(c, c))
        self.skip_connection = nn.Conv2d(c_in, c, 1) if c_in != c else nn.Identity()
        nn.init.zeros_(self.out_layers[3].weight)
        nn.init.zeros_(self.out_layers[3].bias)

    def forward(self, x, emb, context):
        h = self.in_layers(x) + self.emb_layers(emb)[:, :, None, None]
        return self.skip_connection(x) + self.out_layers(h)


class Attention(nn.Module):
    def __init__(self, d, d_context, hd):
        super().__init__()
        self.hd = hd
        self.to_q, self.to_k, self.to_v = (nn.Linear(k, d, bias=False) for k in (d, d_context, d_context))
        self.to_out = nn.Sequential(nn.Linear(d, d))

    def forward(self, x, context):
        heads = lambda y: y.unflatten(-1, (-1, self.hd)).transpose(1, 2)  # [b, heads, n, hd]
        y = F.scaled_dot_product_attention(heads(self.to_q(x)), heads(self.to_k(context)), heads(self.to_v(context)))
        return self.to_out(y.transpose(1, 2).flatten(2))


class GEGLU(nn.Module):
    def __init__(self, d, d_ff):
        super().__init__()
        self.proj = nn.Linear(d, 2 * d_ff)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, -1)
        return x * F.gelu(gate)


class FeedForward(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(GEGLU(d, 4 * d), nn.Identity(), nn.Linear(4 * d, d))

    def forward(self, x):
        return self.net(x)


class TransformerBlock(nn.Module):
    def __init__(self, d, d_context, hd):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d) for _ in range(3))
        self.attn1, self.attn2, self.ff = Attention(d, d, hd), Attention(d, d_context, hd), FeedForward(d)

    def forward(self, x, context):
        y = self.norm1(x)
        x = x + self.attn1(y, y)
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class SpatialTransformer(nn.Module):
    def __init__(self, d, d_context, hd):
        super().__init__()
        self.norm = nn.GroupNorm(32, d, eps=1e-6)
        self.proj_in, self.proj_out = nn.Linear(d, d), nn.Linear(d, d)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(d, d_context, hd)])
        nn.init.zeros_(self.proj_out.weight)
        nn.init.zeros_(self.proj_out.bias)

    def forward(self, x, emb, context):
        b, c, h, w = x.shape
        y = self.proj_in(self.norm(x).permute(0, 2, 3, 1).reshape(b, h * w, c))  # [b, n, d]
        y = self.proj_out(self.transformer_blocks[0](y, context))
        return x + y.reshape(b, h, w, c).permute(0, 3, 1, 2)


class Downsample(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.op = conv(c, c, stride=2)

    def forward(self, x, emb, context):
        return self.op(x)


class Upsample(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = conv(c, c)

    def forward(self, x, emb, context):
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class Stage(nn.ModuleList):
    def forward(self, x, emb, context):
        for module in self:
            x = module(x) if isinstance(module, nn.Conv2d) else module(x, emb, context)
        return x


class UNet(nn.Module):
    def __init__(self, in_channels, model_channels, channel_mult, num_res_blocks, attention_levels, num_head_channels, context_dim, **_):
        super().__init__()
        c, d_emb = model_channels, 4 * model_channels
        self.c = c
        self.time_embed = nn.Sequential(nn.Linear(c, d_emb), nn.SiLU(), nn.Linear(d_emb, d_emb))
        transformer = lambda d: SpatialTransformer(d, context_dim, num_head_channels)
        self.input_blocks = nn.ModuleList([Stage([conv(in_channels, c)])])
        skips, x = [c], c
        for level, mult in enumerate(channel_mult):
            for _ in range(num_res_blocks):
                stage = [ResBlock(x, d_emb, mult * c)]
                x = mult * c
                if level in attention_levels:
                    stage.append(transformer(x))
                self.input_blocks.append(Stage(stage))
                skips.append(x)
            if level + 1 < len(channel_mult):
                self.input_blocks.append(Stage([Downsample(x)]))
                skips.append(x)
        self.middle_block = Stage([ResBlock(x, d_emb, x), transformer(x), ResBlock(x, d_emb, x)])
        self.output_blocks = nn.ModuleList()
        for level, mult in reversed(list(enumerate(channel_mult))):
            for i in range(num_res_blocks + 1):
                stage = [ResBlock(x + skips.pop(), d_emb, mult * c)]
                x = mult * c
                if level in attention_levels:
                    stage.append(transformer(x))
                if level and i == num_res_blocks:
                    stage.append(Upsample(x))
                self.output_blocks.append(Stage(stage))
        self.out = nn.Sequential(nn.GroupNorm(32, x), nn.SiLU(), conv(x, in_channels))
        nn.init.zeros_(self.out[2].weight)
        nn.init.zeros_(self.out[2].bias)

    def forward(self, x, t, context):
        """x [b, 4, h, w], t [b] in 0..1000, context [b, n, d] -> flow [b, 4, h, w]."""
        emb = self.time_embed(timestep_embedding(t, self.c).to(x.dtype))
        skips = []
        for stage in self.input_blocks:
            x = stage(x, emb, context)
            skips.append(x)
        x = self.middle_block(x, emb, context)
        for stage in self.output_blocks:
            x = stage(torch.cat([x, skips.pop()], 1), emb, context)
        return self.out(x)


# CLIP's text model


class ClipAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x)), is_causal=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class ClipMlp(nn.Module):
    def __init__(self, d, d_ff):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)

    def forward(self, x):
        x = self.fc1(x)
        return self.fc2(x * torch.sigmoid(1.702 * x))


class ClipLayer(nn.Module):
    def __init__(self, d, heads, d_ff):
        super().__init__()
        self.layer_norm1, self.layer_norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.self_attn, self.mlp = ClipAttention(d, heads), ClipMlp(d, d_ff)

    def forward(self, x):
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class ClipText(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, max_position_embeddings, **_):
        super().__init__()
        self.embeddings = nn.ModuleDict({"token_embedding": nn.Embedding(vocab_size, hidden_size),
                                         "position_embedding": nn.Embedding(max_position_embeddings, hidden_size)})  # fmt: skip
        layers = [ClipLayer(hidden_size, num_attention_heads, intermediate_size) for _ in range(num_hidden_layers)]
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList(layers)})
        self.final_layer_norm = nn.LayerNorm(hidden_size)
        nn.init.normal_(self.embeddings["token_embedding"].weight, std=0.5)
        nn.init.normal_(self.embeddings["position_embedding"].weight, std=0.1)

    def forward(self, tokens):
        """tokens [b, n] -> last hidden state after the final norm [b, n, d]."""
        x = self.embeddings["token_embedding"](tokens) + self.embeddings["position_embedding"].weight[: tokens.shape[1]]
        for layer in self.encoder["layers"]:
            x = layer(x)
        return self.final_layer_norm(x)


class Denoiser(nn.Module):
    """Text model and UNet as one module; its parameters carry the checkpoint's names below PREFIX."""

    def __init__(self, config=CONFIG):
        super().__init__()
        self.text_model, self.diffusion_model = ClipText(**config["text"]), UNet(**config["unet"])

    def forward(self, x, t, tokens):
        return self.diffusion_model(x, t * 1000, self.text_model(tokens))


PREFIX = {
    "text_model.": "cond_stage_model.transformer.text_model.",
    "diffusion_model.": "model.diffusion_model.",
    "encoder.": "first_stage_model.taesd_encoder.",
    "decoder.": "first_stage_model.taesd_decoder.",
}


def count(module):
    return sum(p.numel() for p in module.parameters())


if __name__ == "__main__":
    from torch.utils.flop_counter import FlopCounterMode

    model, decoder, encoder = Denoiser(), taesd_decoder(), taesd_encoder()
    for name, module in [("unet", model.diffusion_model), ("text", model.text_model), ("decoder", decoder), ("encoder", encoder)]:
        print(f"{name}: {count(module) / 1e6:.2f} M parameters")
    inputs = torch.randn(1, 4, 32, 32), torch.rand(1), torch.zeros(1, 32, dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as flops:
        model.diffusion_model(inputs[0], inputs[1], torch.randn(1, 32, 256))
        unet = flops.get_total_flops()
        model.text_model(inputs[2])
        text = flops.get_total_flops()
        decoder(inputs[0])
    print(f"GFLOP: unet {unet / 1e9:.2f}, text {(text - unet) / 1e9:.2f}, decoder {(flops.get_total_flops() - text) / 1e9:.2f}")
