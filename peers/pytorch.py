"""Times diffusers and transformers on a GPU in bf16, eager and under torch.compile.

The rows are those of `nino bench generate`, so that both can be run in one call on one card:
    python peers/pytorch.py flux t5 sdxl sd15 vae [--eager] [--runs 10]
Weights are random: the speed of a dense network does not depend on their values.
Needs torch 2.11, diffusers 0.42 and transformers 5.17.
"""

import argparse
import statistics
import time

import torch

DTYPE = torch.bfloat16


def timed(name, module, call, runs, compiled):
    """Prints the median and the spread of a call in milliseconds."""
    started = time.time()
    if compiled:
        module.compile(fullgraph=True)
    with torch.inference_mode():
        for _ in range(3):
            call(module)
        torch.cuda.synchronize()
        ready = time.time() - started
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            call(module)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
    how = "compiled" if compiled else "eager"
    print(
        f"{name} {how}: median {statistics.median(times):.2f} ms,"
        f" {min(times):.2f} to {max(times):.2f}, n {runs} (ready after {ready:.0f} s)",
        flush=True,
    )


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=DTYPE)


def made(make):
    with torch.device("meta"):
        module = make()
    module = module.to_empty(device="cuda").to(DTYPE).eval()
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            torch.nn.init.normal_(tensor, std=0.02)
    return module


def flux():
    from diffusers import FluxTransformer2DModel

    module = made(lambda: FluxTransformer2DModel(guidance_embeds=True))
    inputs = {
        "hidden_states": random(1, 4096, 64),
        "encoder_hidden_states": random(1, 512, 4096),
        "pooled_projections": random(1, 768),
        "timestep": torch.full((1,), 0.5, device="cuda", dtype=DTYPE),
        "guidance": torch.full((1,), 3.5, device="cuda"),
        "img_ids": torch.zeros(4096, 3, device="cuda"),
        "txt_ids": torch.zeros(512, 3, device="cuda"),
        "return_dict": False,
    }
    return "flux dev 1024x1024 512 tokens", module, lambda m: m(**inputs)


def t5(tokens=512):
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=32128,
        d_model=4096,
        d_kv=64,
        d_ff=10240,
        num_layers=24,
        num_heads=64,
        feed_forward_proj="gated-gelu",
    )
    module = made(lambda: T5EncoderModel(config))
    ids = torch.randint(0, 32000, (1, tokens), device="cuda")
    return f"t5-xxl {tokens} tokens", module, lambda m: m(input_ids=ids)


def unet(name, config, size, context, added):
    from diffusers import UNet2DConditionModel

    module = made(lambda: UNet2DConditionModel(**config))
    module = module.to(memory_format=torch.channels_last)
    latent = random(2, 4, size, size).to(memory_format=torch.channels_last)
    step = torch.tensor(500.0, device="cuda")
    text = random(2, 77, context)
    extra = None
    if added:
        extra = {"text_embeds": random(2, 1280), "time_ids": random(2, 6)}
    call = lambda m: m(  # noqa: E731
        latent, step, text, added_cond_kwargs=extra, return_dict=False
    )
    return name, module, call


def sd15():
    config = {"sample_size": 64, "cross_attention_dim": 768}
    return unet("sd15 step 512x512", config, 64, 768, False)


def sdxl():
    config = {
        "sample_size": 128,
        "cross_attention_dim": 2048,
        "block_out_channels": (320, 640, 1280),
        "down_block_types": (
            "DownBlock2D",
            "CrossAttnDownBlock2D",
            "CrossAttnDownBlock2D",
        ),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": (1, 2, 10),
        "attention_head_dim": (5, 10, 20),
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816,
    }
    return unet("sdxl step 1024x1024", config, 128, 2048, True)


def vae():
    from diffusers.models.autoencoders.vae import Decoder

    blocks = ("UpDecoderBlock2D",) * 4
    module = made(
        lambda: Decoder(
            in_channels=4,
            out_channels=3,
            up_block_types=blocks,
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
        )
    ).to(memory_format=torch.channels_last)
    latent = random(1, 4, 64, 64).to(memory_format=torch.channels_last)
    return "sd vae decoder 512x512", module, lambda m: m(latent)


ROWS = {"flux": flux, "t5": t5, "sd15": sd15, "sdxl": sdxl, "vae": vae}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", choices=ROWS)
    parser.add_argument("--eager", action="store_true", help="time eager mode too")
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    print(torch.__version__, torch.cuda.get_device_name())
    for row in args.rows:
        name, module, call = ROWS[row]()
        if args.eager:
            timed(name, module, call, args.runs, compiled=False)
        timed(name, module, call, args.runs, compiled=True)
        del module, call
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
