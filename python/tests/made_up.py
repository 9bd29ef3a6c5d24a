"""What the scripts that compare with ComfyUI share: networks with made-up weights, and a watch on
nodes that leave their work to ComfyUI."""

import torch


def made_up(network, seed=1):
    """Weights that keep activations finite, scaled by the fan-in."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, weight in network.state_dict().items():
        if not weight.is_floating_point():
            state[name] = weight
        elif weight.ndim > 1 and "gamma" not in name:
            fan_in = weight[0].numel()
            state[name] = torch.randn(weight.shape, generator=generator) / fan_in**0.5
        else:
            gain = 1.0 if name.endswith(("weight", "gamma")) else 0.0
            state[name] = gain + 0.05 * torch.randn(weight.shape, generator=generator)
    return state


def kl(channels, quant):
    """The VAE of SD (4 channels, with quantization layers) or Flux (16, without)."""
    sizes = {"double_z": True, "z_channels": channels, "resolution": 256, "in_channels": 3}
    sizes |= {"out_ch": 3, "ch": 128, "ch_mult": [1, 2, 4, 4], "num_res_blocks": 2}
    sizes |= {"attn_resolutions": [], "dropout": 0.0}
    from comfy.ldm.models.autoencoder import AutoencoderKL, AutoencodingEngine

    if quant:
        return AutoencoderKL(ddconfig=sizes, embed_dim=channels)
    return AutoencodingEngine(
        regularizer_config={"target": "comfy.ldm.models.autoencoder.DiagonalGaussianRegularizer"},
        encoder_config={
            "target": "comfy.ldm.modules.diffusionmodules.model.Encoder",
            "params": sizes,
        },
        decoder_config={
            "target": "comfy.ldm.modules.diffusionmodules.model.Decoder",
            "params": sizes,
        },
    )


def taesd():
    from comfy.taesd.taesd import TAESD

    state = made_up(TAESD())
    state["vae_scale"], state["vae_shift"] = torch.tensor(0.18215), torch.tensor(0.0)
    return state


def wan():
    from comfy.ldm.wan.vae import WanVAE

    network = WanVAE(
        dim=96,
        z_dim=16,
        dim_mult=[1, 2, 4, 4],
        num_res_blocks=2,
        attn_scales=[],
        temperal_downsample=[False, True, True],
        dropout=0.0,
    )
    return made_up(network)


def psnr(ours, theirs):
    error = (ours.double() - theirs.double()).pow(2).mean().item()
    return float("inf") if error == 0 else -10 * torch.log10(torch.tensor(error)).item()


def left_to_stock():
    """What nodes of the pack leave to ComfyUI's own, from here on: a list that grows."""
    from ninodes.comfyui import host

    left = []

    def ours_or_stock(what, ours, stock):
        try:
            return ours()
        except host.Unknown as why:
            left.append(f"{what}: {why}")
            return stock()

    host.ours_or_stock = ours_or_stock
    return left
