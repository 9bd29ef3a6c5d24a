"""Runs the workflows of rocm-ninodes in a real ComfyUI on the CPU, by ComfyUI's own executor.

    python python/tests/workflows.py PATH/TO/ComfyUI

Models have made-up weights: narrow networks and text encoders (`goldens/generate`), VAEs of full
size. Each workflow is run with the pack's nodes and again with the stock ones in their place; the
pictures have to agree to 50 dB, and no node of the pack may have left its work to a stock one. It
needs what ComfyUI needs, and the package.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import types

COMFY = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [COMFY, str(ROOT / "goldens/generate"), str(ROOT / "python/tests")]
BASE = pathlib.Path(tempfile.mkdtemp())
sys.argv = [sys.argv[0], "--cpu", "--base-directory", str(BASE)]
os.environ.setdefault("NINO_DEVICE", "cpu")

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

# Nodes tell pages of what they make; there are none.
SERVER = types.SimpleNamespace(
    client_id=None, last_node_id=None, last_prompt_id=None, send_sync=lambda *_, **__: None
)
sys.modules["server"] = types.SimpleNamespace(PromptServer=types.SimpleNamespace(instance=SERVER))

import asyncio  # noqa: E402
import functools  # noqa: E402

import comfy.sd  # noqa: E402
import comfy.supported_models  # noqa: E402
import comfy.utils  # noqa: E402
import execution  # noqa: E402
import nodes  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import weights  # noqa: E402
from made_up import kl, left_to_stock, made_up, psnr, wan  # noqa: E402
from PIL import Image  # noqa: E402

T5 = {"num_layers": 2, "d_model": 64, "d_kv": 64, "num_heads": 2, "d_ff": 96}
CLIP_L = {"num_hidden_layers": 3, "intermediate_size": 256}
FLUX = {"clip_l_model_config": CLIP_L, "t5xxl_model_config": T5}
WAN = {"_model_config": T5 | {"vocab_size": 512}, "umt5xxl_model_config": T5 | {"vocab_size": 512}}
NET = "model.diffusion_model."
CACHE = {"lru": 0, "ram": 16.0, "ram_inactive": 16.0}


def model(name, prefix=""):
    """The tensors of a small model below a prefix."""
    path = BASE / f"{name}.whole.safetensors"
    weights.write(name, path)
    state = comfy.utils.load_torch_file(str(path), safe_load=True)
    path.unlink()
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def save(folder, name, state):
    path = BASE / "models" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    comfy.utils.save_torch_file({k: v.contiguous() for k, v in state.items()}, str(path))


def models():
    """Files by the names of the workflows, and ComfyUI told of the encoders' sizes."""
    parts = ("model.diffusion_model.", "text_encoders.")
    whole = {k: v for k, v in model("tiny_flux").items() if k.startswith(parts)}
    whole |= {f"vae.{k}": v for k, v in made_up(kl(16, False)).items()}
    save("checkpoints", "flux1-dev.safetensors", whole)
    for name, kind in [("high", "tiny_wan22_i2v"), ("low", "tiny_wan22_i2v")]:
        save("diffusion_models", f"wan2.2_i2v_{name}_noise_14B.safetensors", model(kind, NET))
    text = model("tiny_wan", "text_encoders.umt5xxl.transformer.")
    spiece = (ROOT / "goldens/text/small/spiece.model").read_bytes()
    text["spiece_model"] = torch.frombuffer(bytearray(spiece), dtype=torch.uint8)
    save("text_encoders", "umt5_xxl.safetensors", text)
    save("vae", "wan_2.1_vae.safetensors", wan())
    up = torch.randn(4, 256, generator=torch.Generator().manual_seed(1)) * 0.05
    lora = {"blocks.0.self_attn.q": (up.new_zeros(256, 4) + 0.02, up)}
    state = {}
    for name, (b, a) in lora.items():
        state |= {f"diffusion_model.{name}.lora_B.weight": b, f"diffusion_model.{name}.lora_A.weight": a}
    save("loras", "lightx2v.safetensors", state)
    for kind in ("WAN21_I2V", "WAN22_T2V", "WAN21_T2V"):
        getattr(comfy.supported_models, kind).unet_extra_config = {"text_dim": 64}
    load = comfy.sd.load_checkpoint_guess_config
    comfy.sd.load_checkpoint_guess_config = functools.partial(load, te_model_options=FLUX)
    # Two layers of T5 are taken for a small T5 and not for Wan's.
    detect = comfy.sd.detect_te_model
    t5 = comfy.sd.TEModel.T5_XXL
    comfy.sd.detect_te_model = lambda sd: t5 if "spiece_model" in sd else detect(sd)
    clip = comfy.sd.load_clip
    comfy.sd.load_clip = lambda *a, **k: clip(*a, **(k | {"model_options": WAN}))
    (BASE / "input").mkdir(exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(BASE / "input" / "start.png")


DECODE = {
    "tile_size": 768, "overlap": 96, "use_rocm_optimizations": True, "precision_mode": "auto",
    "batch_optimization": True,
}  # fmt: skip


def picture(
    decode, batch=1, guidance=None, monitor=False, loader="CheckpointLoaderSimple", sampler="KSampler"
):
    """example_workflow, flux_dev_optimized, and comfyui_workflows/*."""
    steps = {"seed": 5, "steps": 2, "cfg": 1.0, "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0}
    links = {"model": ["1", 0], "positive": ["2", 0], "negative": ["3", 0], "latent_image": ["4", 0]}
    inputs = DECODE if decode.startswith("ROCM") else {}
    graph = {
        "1": (loader, {"ckpt_name": "flux1-dev.safetensors"}),
        "2": ("CLIPTextEncode", {"text": "a red fox", "clip": ["1", 1]}),
        "3": ("CLIPTextEncode", {"text": "", "clip": ["1", 1]}),
        "4": ("EmptySD3LatentImage", {"width": 128, "height": 96, "batch_size": batch}),
        "5": (sampler, links | steps),
        "6": (decode, {"samples": ["5", 0], "vae": ["1", 2]} | inputs),
        "7": ("SaveImage", {"images": ["6", 0], "filename_prefix": "made"}),
    }
    if guidance:
        graph["8"] = ("FluxGuidance", {"conditioning": ["2", 0], "guidance": guidance})
        graph["5"][1]["positive"] = ["8", 0]
    if monitor:
        graph["9"] = ("ROCMVAEPerformanceMonitor", {"vae": ["1", 2], "test_resolution": 256})
    return graph


def clip(sampler, decode):
    """example_workflow_wan_video: two experts, a LoRA each, and a clip."""
    graph = {
        "3": ("CLIPLoader", {"clip_name": "umt5_xxl.safetensors", "type": "wan"}),
        "4": ("VAELoader", {"vae_name": "wan_2.1_vae.safetensors"}),
        "5": ("CLIPTextEncode", {"text": "a boat", "clip": ["3", 0]}),
        "6": ("CLIPTextEncode", {"text": "fog", "clip": ["3", 0]}),
        "7": ("LoadImage", {"image": "start.png"}),
        "8": ("WanImageToVideo", {"positive": ["5", 0], "negative": ["6", 0], "vae": ["4", 0], "width": 64,
              "height": 48, "length": 9, "batch_size": 1, "start_image": ["7", 0]}),
        "30": (decode, {"samples": ["22", 0], "vae": ["4", 0]} | (DECODE if decode.startswith("ROCM") else {})),
        "31": ("CreateVideo", {"images": ["30", 0], "fps": 16.0}),
        "32": ("SaveVideo", {"video": ["31", 0], "filename_prefix": "clip", "format": "auto", "codec": "auto"}),
        "33": ("SaveImage", {"images": ["30", 0], "filename_prefix": "frame"}),
    }  # fmt: skip
    window = {"21": (0, 1, "enable", "enable", ["8", 2]), "22": (1, 1000, "disable", "disable", ["21", 0])}
    for i, (node, noise) in enumerate([("21", "high"), ("22", "low")]):
        unet = {"unet_name": f"wan2.2_i2v_{noise}_noise_14B.safetensors", "weight_dtype": "default"}
        graph[f"1{i}"] = ("UNETLoader", unet)
        lora = {"model": [f"1{i}", 0], "lora_name": "lightx2v.safetensors", "strength_model": 1.0}
        graph[f"4{i}"] = ("LoraLoaderModelOnly", lora)
        graph[f"5{i}"] = ("ModelSamplingSD3", {"model": [f"4{i}", 0], "shift": 5.0})
        start, end, add, leave, latent = window[node]
        graph[node] = (sampler, {"model": [f"5{i}", 0], "add_noise": add, "noise_seed": 7, "steps": 2, "cfg": 1.0,
            "sampler_name": "euler", "scheduler": "simple", "positive": ["8", 0], "negative": ["8", 1],
            "latent_image": latent, "start_at_step": start, "end_at_step": end,
            "return_with_leftover_noise": leave})  # fmt: skip
    return graph


def run(graph):
    """What the pictures and texts of a graph's output nodes are."""
    prompt = {id: {"class_type": class_, "inputs": inputs} for id, (class_, inputs) in graph.items()}
    valid = asyncio.run(execution.validate_prompt("id", prompt, None))
    assert valid[0], valid
    executor = execution.PromptExecutor(SERVER, execution.CacheType.CLASSIC, CACHE)
    executor.execute(prompt, "id", {}, valid[2])
    assert executor.success, executor.status_messages[-1]
    outputs = executor.history_result["outputs"]
    files = [file for out in outputs.values() for file in out.get("images", []) if file["type"] == "output"]
    shown = [np.asarray(Image.open(BASE / "output" / f["subfolder"] / f["filename"])) for f in files
             if f["filename"].endswith(".png")]  # fmt: skip
    return torch.tensor(np.stack(shown)) / 255.0, outputs


def main():
    asyncio.run(nodes.init_extra_nodes(init_custom_nodes=False, init_api_nodes=False))
    import ninodes.comfyui as pack

    left = left_to_stock()
    nodes.NODE_CLASS_MAPPINGS.update(pack.NODE_CLASS_MAPPINGS)
    models()
    ours, old = "ROCMOptimizedVAEDecode", "ROCMOptimizedVAEDecodeV2Phase3"
    loader = "ROCMOptimizedCheckpointLoader"
    cases = {
        "example_workflow": (picture(ours, monitor=True), picture("VAEDecode")),
        "flux_dev_optimized": (picture(ours, guidance=3.5), picture("VAEDecode", guidance=3.5)),
        "flux_dev_optimized, all ours": (picture(ours, guidance=3.5, loader=loader, sampler="ROCMOptimizedKSampler"),
                                         picture("VAEDecode", guidance=3.5)),
        "basic_image": (picture(old, loader=loader), picture("VAEDecode")),
        "batch_processing": (picture(old, batch=3), picture("VAEDecode", batch=3)),
        "performance_comparison": (picture("ROCMOptimizedVAEDecodeV2"), picture("VAEDecode")),
        "example_workflow_wan_video, as shipped": (clip("KSamplerAdvanced", "VAEDecode"),) * 2,
        "video_processing": (clip("KSamplerAdvanced", old), clip("KSamplerAdvanced", "VAEDecode")),
        "video_processing, all ours": (clip("ROCMOptimizedKSamplerAdvanced", ours),
                                       clip("KSamplerAdvanced", "VAEDecode")),
    }  # fmt: skip
    wrong = 0
    for name, (with_pack, stock) in cases.items():
        (made, outputs), (wanted, _) = run(with_pack), run(stock)
        quality = psnr(made, wanted)
        is_right = made.shape == wanted.shape and quality >= 50 and made.std() > 0.01 and not left
        wrong += not is_right
        while left:
            print(f"     left to ComfyUI: {left.pop()}")
        print(f"{'ok  ' if is_right else 'FAIL'} {name}: {len(made)} pictures, {quality:.1f} dB", flush=True)
        texts = [text for out in outputs.values() for text in out.get("text", [])]
        if "monitor" in name or name == "example_workflow":
            assert any("n=5" in text for text in texts), texts
    shutil.rmtree(BASE)
    print(f"{wrong} failed" if wrong else "all as they should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    with torch.no_grad():
        main()
