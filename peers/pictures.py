"""Times whole pictures of Flux.2 klein 4B and Z-Image Turbo by diffusers and transformers on a GPU.

    python peers/pictures.py klein z_image [--eager] [--runs 5] [--size 1024]

In bf16 under torch.compile, with random weights: the speed of a dense network does not depend on
their values. A picture is the text encoder, every step of the transformer with Euler's update, and
the VAE's decoder, one after the other, from token ids on the card to pixels on the card. The parts
are timed alone, too. Nothing is loaded or tokenized inside of a time, as in nino's second picture
of a process: `cargo run --release -p nino-engine --example second_picture`.
Needs torch 2.11, diffusers 0.42 and transformers 5.17.
"""

import argparse
import statistics
import time

import torch
from pytorch import DTYPE, made, random


def clocked(name, call, runs, warm=3):
    """Prints the median and the spread of a call in milliseconds."""
    started = time.time()
    with torch.inference_mode():
        for _ in range(warm):
            call()
        torch.cuda.synchronize()
        ready = time.time() - started
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
    middle = statistics.median(times)
    print(f"{name}: median {middle:.2f} ms, {min(times):.2f} to {max(times):.2f}, n {runs} (ready after {ready:.0f} s)", flush=True)
    return middle


def qwen3(taps, layers):
    """Qwen3 4B with the layers that are needed, as a call from ids to the states that are tapped."""
    from transformers import Qwen3Config, Qwen3Model

    config = Qwen3Config(
        vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=layers, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, rope_theta=1e6, use_cache=False,
    )  # fmt: skip
    module = made(lambda: Qwen3Model(config))
    # Its buffers are of positions; random ones would not be what is computed.
    module.rotary_emb = type(module.rotary_emb)(config).to("cuda")

    def call(ids):
        states = module(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
        return torch.cat([states[i] for i in taps], dim=-1)

    return module, call


def decoder(channels):
    from diffusers.models.autoencoders.vae import Decoder

    sizes = dict(in_channels=channels, out_channels=3, up_block_types=("UpDecoderBlock2D",) * 4,
                 block_out_channels=(128, 256, 512, 512), layers_per_block=2)  # fmt: skip
    return made(lambda: Decoder(**sizes)).to(memory_format=torch.channels_last)


def klein(size):
    from diffusers import Flux2Transformer2DModel

    sizes = dict(num_layers=5, num_single_layers=20, num_attention_heads=24, joint_attention_dim=7680, guidance_embeds=False)
    transformer = made(lambda: Flux2Transformer2DModel(**sizes))
    side, tokens = size // 16, 512
    places = torch.arange(side, device="cuda")
    zero = torch.zeros(1, dtype=places.dtype, device="cuda")
    img_ids = torch.cartesian_prod(zero, places, places, zero)
    txt_ids = torch.cartesian_prod(zero, zero, zero, torch.arange(tokens, device="cuda"))

    def step(x, t, text):
        given = dict(hidden_states=x, encoder_hidden_states=text, timestep=t, img_ids=img_ids, txt_ids=txt_ids)
        return transformer(**given, return_dict=False)[0]

    def unpacked(x):
        """Tokens of 128 channels to the VAE's 32 channels at twice the size."""
        x = x.reshape(1, side, side, 32, 2, 2).permute(0, 3, 1, 4, 2, 5)
        return x.reshape(1, 32, 2 * side, 2 * side).contiguous(memory_format=torch.channels_last)

    text = qwen3((9, 18, 27), 27)
    return dict(name="klein 4B", steps=4, tokens=tokens, text=text, step=(transformer, step), vae=decoder(32),
                latent=(1, side * side, 128), unpacked=unpacked)  # fmt: skip


def z_image(size):
    from diffusers import ZImageTransformer2DModel

    transformer = made(lambda: ZImageTransformer2DModel())
    side = size // 8

    def step(x, t, text):
        # It takes a list of pictures with a frame each.
        out = transformer([x[0].unsqueeze(1)], 1 - t, [text[0]], return_dict=False)[0]
        return -out[0].squeeze(1).unsqueeze(0)

    unpacked = lambda x: x.contiguous(memory_format=torch.channels_last)  # noqa: E731
    # A prompt of this many tokens with its template.
    return dict(name="Z-Image Turbo", steps=8, tokens=128, text=qwen3((35,), 35), step=(transformer, step), vae=decoder(16),
                latent=(1, 16, side, side), unpacked=unpacked)  # fmt: skip


def compile_all(parts):
    text, transformer, vae = parts["text"][0], parts["step"][0], parts["vae"]
    text.compile()
    vae.compile(fullgraph=True)
    # Z-Image's lists of pictures break the graph of the whole; its blocks are what takes time.
    if hasattr(transformer, "noise_refiner"):
        transformer.compile_repeated_blocks(fullgraph=True)
    else:
        transformer.compile(fullgraph=True)


def measure(parts, runs, how):
    steps, encode, step = parts["steps"], parts["text"][1], parts["step"][1]
    ids = torch.randint(0, 150000, (1, parts["tokens"]), device="cuda")
    latent = random(*parts["latent"])
    levels = torch.linspace(1, 0, steps + 1, device="cuda", dtype=DTYPE)
    named = f"{parts['name']} {how}"

    def picture():
        text, x = encode(ids), latent
        for i in range(steps):
            x = x + (levels[i + 1] - levels[i]) * step(x, levels[i : i + 1], text)
        return parts["vae"](parts["unpacked"](x))

    with torch.inference_mode():
        text = encode(ids).clone()
    one = clocked(f"{named} text {parts['tokens']} tokens", lambda: encode(ids), runs)
    two = clocked(f"{named} step", lambda: step(latent, levels[1:2], text), runs)
    three = clocked(f"{named} vae", lambda: parts["vae"](parts["unpacked"](latent)), runs)
    print(f"{named} summed: {one + steps * two + three:.2f} ms ({steps} steps)", flush=True)
    clocked(f"{named} picture of {steps} steps", picture, runs)


MODELS = {"klein": klein, "z_image": z_image}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", choices=MODELS)
    parser.add_argument("--eager", action="store_true", help="time eager mode too")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024)
    args = parser.parse_args()
    print(torch.__version__, torch.cuda.get_device_name())
    for name in args.models:
        parts = MODELS[name](args.size)
        if args.eager:
            measure(parts, args.runs, "eager")
        compile_all(parts)
        measure(parts, args.runs, "compiled")
        del parts
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
