"""Compares the nodes with ComfyUI's own, in a real ComfyUI on the CPU.

    python python/tests/comfyui.py PATH/TO/ComfyUI [vae] [sd15] [sdxl] [graph] [time]

Models have made-up weights of their real layout; the VAEs are of full size, the diffusion models
narrow. Pictures have to agree to 50 dB in f32, latents to a normalized mean square error of 1e-5.
`time` decodes 512² by turns with both, and prints a table; run it on an idle machine. It needs
torch and what ComfyUI needs, and the package (`cargo xtask wheel`, or PYTHONPATH).
"""

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

COMFY = sys.argv.pop(1)
PARTS = sys.argv[1:] or ["vae", "sd15", "sdxl", "graph"]
sys.path.insert(0, COMFY)
sys.argv = [sys.argv[0], "--cpu"]
os.environ.setdefault("NINO_DEVICE", "cpu")

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import comfy.model_management  # noqa: E402
import comfy.model_patcher  # noqa: E402
import comfy.samplers  # noqa: E402
import comfy.sd  # noqa: E402
import nodes  # noqa: E402
import torch  # noqa: E402

from made_up import kl, left_to_stock, made_up, psnr, taesd, wan  # noqa: E402

from ninodes import measure  # noqa: E402
from ninodes.comfyui import NODE_CLASS_MAPPINGS, host, weights  # noqa: E402

failed = []
MIB = 1 << 20


def check(what, value, limit, *, at_least):
    holds = value >= limit if at_least else value <= limit
    print(f"{'ok  ' if holds else 'FAIL'} {what}: {value:.3g} (limit {limit:g})", flush=True)
    if not holds:
        failed.append(what)


VAES = {
    "SD": (lambda: made_up(kl(4, True)), (2, 4, 16, 24)),
    "SDXL": (lambda: made_up(kl(4, True), 2), (1, 4, 32, 24)),
    "Flux": (lambda: made_up(kl(16, False)), (1, 16, 24, 16)),
    "TAESD": (taesd, (3, 4, 32, 32)),
    "Wan": (wan, (1, 16, 3, 12, 10)),
}


def decode_with(node, vae, latent, **inputs):
    made = NODE_CLASS_MAPPINGS[node]()
    return getattr(made, made.FUNCTION)(samples={"samples": latent}, vae=vae, **inputs)[0]


def stock_must_not_run(function):
    """Fails where a node went to ComfyUI's own function."""
    real = host.ours_or_stock
    left = left_to_stock()
    try:
        function()
    finally:
        host.ours_or_stock = real
    for line in left:
        print(f"FAIL went to ComfyUI's own function: {line}")
        failed.append(line)


def vaes():
    for name, (make, shape) in VAES.items():
        state = make()
        latent = torch.randn(shape, generator=torch.Generator().manual_seed(3))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"{name}.safetensors")
            comfy.utils.save_torch_file(state, path)
            vae = comfy.sd.VAE(sd=comfy.utils.load_torch_file(path), dtype=torch.float32)
            theirs = nodes.VAEDecode().decode(vae, {"samples": latent})[0]
            ours = decode_with("ROCMOptimizedVAEDecode", vae, latent, precision_mode="fp32")
            assert ours.shape == theirs.shape, (name, ours.shape, theirs.shape)
            check(f"{name} VAE from memory, dB", psnr(ours, theirs), 50, at_least=True)
            if name != "TAESD":
                vae = comfy.sd.VAE(sd=comfy.utils.load_torch_file(path), dtype=torch.float32)
                vae.patcher.cached_patcher_init = (None, (path,))
                ours = decode_with("ROCMOptimizedVAEDecodeV2", vae, latent)
                check(f"{name} VAE from its file, dB", psnr(ours, theirs), 50, at_least=True)
            print(f"     contrast of the picture: {theirs.std().item():.3f}")


def tiny_unet(kind):
    """A MODEL of ComfyUI with a narrow SD 1.x or SDXL UNet."""
    import comfy.supported_models as known

    config = known.SD15 if kind == "sd15" else known.SDXL
    sizes = {
        "image_size": 32,
        "in_channels": 4,
        "out_channels": 4,
        "model_channels": 32,
        "num_res_blocks": [2, 2, 2, 2] if kind == "sd15" else [2, 2, 2],
        "channel_mult": [1, 2, 4, 4] if kind == "sd15" else [1, 2, 4],
        "transformer_depth": [1, 1, 1, 1, 1, 1, 0, 0] if kind == "sd15" else [0, 0, 2, 2, 4, 4],
        "transformer_depth_middle": 1 if kind == "sd15" else 4,
        "transformer_depth_output": [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
        if kind == "sd15"
        else [0, 0, 0, 2, 2, 2, 4, 4, 4],
        "context_dim": 768 if kind == "sd15" else 2048,
        "use_linear_in_transformer": kind != "sd15",
        "adm_in_channels": None if kind == "sd15" else 2816,
        "use_spatial_transformer": True,
        "legacy": False,
        "dtype": torch.float32,
    }
    sizes |= {"num_heads": 8} if kind == "sd15" else {"num_head_channels": 64}
    if kind != "sd15":
        sizes |= {"num_classes": "sequential", "model_channels": 64, "num_heads": -1}
    settings = config(sizes)
    model = settings.get_model({}, "", device=torch.device("cpu"))
    state = made_up(model.diffusion_model, 5)
    model.diffusion_model.load_state_dict(state)
    cpu = torch.device("cpu")
    return comfy.model_patcher.ModelPatcher(model, cpu, cpu)


def prompt(kind, seed):
    generator = torch.Generator().manual_seed(seed)
    width = 768 if kind == "sd15" else 2048
    said = {"pooled_output": torch.randn(1, 1280, generator=generator)} if kind == "sdxl" else {}
    return [[torch.randn(1, 77, width, generator=generator), said]]


SAMPLERS = [
    ("euler", "normal", {}),
    ("dpmpp_2m", "karras", {"cfg": 3.0}),
    ("euler_ancestral", "simple", {"denoise": 0.6}),
    ("uni_pc", "normal", {}),
    ("dpmpp_2m_sde", "exponential", {"seed": 2**63 + 5}),
]


def nmse(ours, theirs):
    return ((ours - theirs).double().pow(2).sum() / theirs.double().pow(2).sum()).item()


def both(node, stock, **inputs):
    """The LATENTs of our node and of ComfyUI's."""
    theirs = getattr(stock, stock.FUNCTION)(**inputs)[0]
    made = NODE_CLASS_MAPPINGS[node]()
    return getattr(made, made.FUNCTION)(**inputs)[0], theirs


def samplers(kind):
    """The sampling nodes with a narrow UNet of a kind."""
    model = tiny_unet(kind)
    common = {"model": model, "steps": 4}
    common |= {"positive": prompt(kind, 1), "negative": prompt(kind, 2)}
    latent = {"samples": torch.zeros(2, 4, 8, 12)}
    started = {"samples": torch.randn(1, 4, 8, 8) * 3}
    mask = torch.zeros(1, 1, 64, 64)
    mask[..., 32:] = 1
    for sampler, scheduler, more in SAMPLERS:
        inputs = {"seed": 7, "cfg": 7.0, "sampler_name": sampler, "scheduler": scheduler}
        inputs |= common | {"latent_image": started if "denoise" in more else latent} | more
        same(f"{kind} {sampler} {scheduler}", "ROCMOptimizedKSampler", nodes.KSampler(), inputs)
    inputs = {"seed": 7, "cfg": 4.0, "sampler_name": "euler", "scheduler": "normal"}
    inputs |= common | {"latent_image": started | {"noise_mask": mask}}
    same(f"{kind} with a mask", "ROCMOptimizedKSampler", nodes.KSampler(), inputs)
    for window, leftover in (((0, 3), "enable"), ((0, 3), "disable"), ((3, 10000), "disable")):
        inputs = {"noise_seed": 9, "cfg": 5.0, "sampler_name": "euler", "scheduler": "normal"}
        inputs |= {"add_noise": "enable" if window[0] == 0 else "disable"}
        inputs |= {"start_at_step": window[0], "end_at_step": window[1]}
        inputs |= common | {"return_with_leftover_noise": leftover, "latent_image": started}
        what = f"{kind} steps {window}, leftover noise {leftover}"
        same(what, "ROCMOptimizedKSamplerAdvanced", nodes.KSamplerAdvanced(), inputs)
    lora(model, common | {"latent_image": latent})
    custom(kind, model, common, latent)


def same(what, node, stock, inputs):
    ours, theirs = both(node, stock, **inputs)
    error = nmse(ours["samples"], theirs["samples"])
    check(f"{what} NMSE", error, 1e-5, at_least=False)


def custom(kind, model, common, latent):
    """Both LATENTs of SamplerCustomAdvanced, and its benchmark."""
    import comfy_extras.nodes_custom_sampler as stock

    by_cfg = comfy.samplers.CFGGuider(model)
    by_cfg.set_conds(common["positive"], common["negative"])
    by_cfg.set_cfg(5.0)
    basic = stock.Guider_Basic(model)
    basic.set_conds(common["positive"])
    levels = comfy.samplers.calculate_sigmas(model.get_model_object("model_sampling"), "normal", 4)
    noise, none = stock.Noise_RandomNoise(3), stock.Noise_EmptyNoise()
    started = {"samples": torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(1)) * 3}
    node = NODE_CLASS_MAPPINGS["ROCMSamplerCustomAdvanced"]()
    for what, given in {
        "CFGGuider, euler": (noise, by_cfg, "euler", levels, latent),
        "BasicGuider, dpmpp_2m": (noise, basic, "dpmpp_2m", levels, latent),
        "the first steps": (noise, by_cfg, "euler", levels[:3], latent),
        "the last steps, no noise": (none, by_cfg, "euler", levels[2:], started),
    }.items():
        drawn, guider, sampler, sigmas, start = given
        given = (drawn, guider, comfy.samplers.sampler_object(sampler), sigmas, start)
        theirs = stock.SamplerCustomAdvanced.execute(*given).result
        ours = node.sample(*given)
        for output, a, b in zip(("output", "denoised_output"), ours, theirs):
            error = nmse(a["samples"], b["samples"])
            check(f"{kind} custom, {what}: {output} NMSE", error, 1e-5, at_least=False)
    inputs = {"noise": noise, "guider": by_cfg, "sigmas": levels, "latent_image": latent}
    inputs |= {"sampler": comfy.samplers.sampler_object("euler")}
    node = NODE_CLASS_MAPPINGS["ROCMSamplerCustomAdvancedBenchmark"]()
    _, report = node.sample(**inputs)
    print(report)
    error = float(report.rsplit(" ", 1)[1])
    check(f"{kind} SamplerCustomAdvanced's benchmark NMSE", error, 1e-5, at_least=False)


def lora(model, common):
    """A model with changed weights is used from ComfyUI's memory."""
    name = "diffusion_model.middle_block.0.in_layers.2.weight"
    weight = model.model.state_dict()[name]
    patched = model.clone()
    patched.add_patches({name: ("diff", (torch.randn_like(weight) * 0.1,))}, 0.8)
    inputs = {"seed": 1, "cfg": 5.0, "sampler_name": "euler", "scheduler": "normal"}
    inputs |= common | {"model": patched}
    ours, theirs = both("ROCMOptimizedKSampler", nodes.KSampler(), **inputs)
    plain = both("ROCMOptimizedKSampler", nodes.KSampler(), **(inputs | {"model": model}))[0]
    error = nmse(ours["samples"], theirs["samples"])
    check("with a patch NMSE", error, 1e-5, at_least=False)
    changed = nmse(plain["samples"], theirs["samples"])
    check("what the patch changes NMSE", changed, 1e-4, at_least=True)


def graphs():
    """Monitors in a graph's order, an unknown model, and an interrupt."""
    vae = comfy.sd.VAE(sd=made_up(kl(4, True)), dtype=torch.float32)

    def stop(*_):
        comfy.model_management.interrupt_current_processing()

    real = host.progress
    from ninodes.comfyui import vae as vae_nodes

    def interrupted(*args):
        tell = real(*args)
        stop()
        return tell

    vae_nodes.host.progress = interrupted
    try:
        decode_with("ROCMOptimizedVAEDecode", vae, torch.zeros(1, 4, 32, 32))
        failed.append("an interrupt did not stop the decode")
    except comfy.model_management.InterruptProcessingException:
        print("ok   an interrupt stops the decode")
    finally:
        vae_nodes.host.progress = real
    gives_up(vae)
    model = tiny_unet("sd15").clone()
    model.set_model_sampler_cfg_function(lambda args: args["cond"])
    inputs = {"seed": 1, "cfg": 5.0, "sampler_name": "euler", "scheduler": "normal", "steps": 2}
    inputs |= {"positive": prompt("sd15", 1), "negative": prompt("sd15", 2), "model": model}
    inputs |= {"latent_image": {"samples": torch.zeros(1, 4, 8, 8)}}
    ours, theirs = both("ROCMOptimizedKSampler", nodes.KSampler(), **inputs)
    error = nmse(ours["samples"], theirs["samples"])
    check("a model changed by a node goes to ComfyUI's sampler, NMSE", error, 0, at_least=False)
    monitors(vae, tiny_unet("sd15"))


def gives_up(vae):
    """What the engine keeps goes when ComfyUI unloads, and when it needs more than is free."""
    cpu, manager = torch.device("cpu"), comfy.model_management
    asks = {
        "unload_all_models": manager.unload_all_models,
        "free_memory of too much": lambda: manager.free_memory(1e30, cpu),
    }
    for what, ask in asks.items():
        decode_with("ROCMOptimizedVAEDecode", vae, torch.zeros(1, 4, 8, 8))
        manager.free_memory(1.0, cpu)
        kept = host.engine().usage()["weight_bytes"]
        ask()
        left = host.engine().usage()["weight_bytes"]
        holds = kept > 0 and left == 0
        print(f"{'ok  ' if holds else 'FAIL'} {what}: {kept} bytes of the engine's, then {left}")
        if not holds:
            failed.append(what)


def monitors(vae, model):
    """Every monitor measures, and its numbers are found by another way within 5 %: times by the
    wall clock around the same work, memory by what the system says of the process."""
    node = NODE_CLASS_MAPPINGS["ROCMVAEPerformanceMonitor"]()
    told = node.measure(vae, 512)["result"]
    print("\n".join(told))
    line = next(line for line in told[1].splitlines() if line.startswith("f32"))
    latent = torch.randn(1, 4, 64, 64, generator=torch.Generator().manual_seed(0))
    apart("a decode, seconds", seconds_of(line), wall(lambda: decode_with(
        "ROCMOptimizedVAEDecode", vae, latent, precision_mode="fp32")))  # fmt: skip
    node = NODE_CLASS_MAPPINGS["ROCMSamplerPerformanceMonitor"]()
    told = node.measure(model, 8)["result"]
    print("\n".join(told))
    # Nine steps and their first one's loading, less one step with the same: eight steps.
    ours = NODE_CLASS_MAPPINGS["ROCMOptimizedKSampler"]()
    inputs = {"seed": 1, "cfg": 7.0, "sampler_name": "euler", "scheduler": "normal", "model": model}
    inputs |= {"positive": prompt("sd15", 1), "negative": prompt("sd15", 2), "denoise": 1.0}
    inputs |= {"latent_image": {"samples": torch.zeros(1, 4, 64, 64)}}
    many = wall(lambda: ours.sample(**inputs, steps=9))
    one = wall(lambda: ours.sample(**inputs, steps=1))
    apart("a step, seconds", seconds_of(told[1].splitlines()[0]), (many - one) / 8)
    node = NODE_CLASS_MAPPINGS["ROCMFluxBenchmark"]()
    told = node.measure(model, vae, None, "64x64,128x64", 2, "1.0,4.0", True, True)["result"]
    print("\n".join(told))
    memory = subprocess.run(
        [sys.executable, __file__, COMFY, "memory"], check=True, capture_output=True, text=True
    )
    for what, (told, found) in json.loads(memory.stdout.splitlines()[-1]).items():
        apart(f"{what}, MiB", told, found)


def memory():
    """Prints what monitors tell of memory, and what the system sees of the process: for a decode,
    the most it held beyond what it held before; for what the engine keeps, how much less it holds
    once that is given back. In a process of its own, where nothing else comes and goes."""
    vae = comfy.sd.VAE(sd=made_up(kl(4, True)), dtype=torch.float32)
    latent = torch.randn(1, 4, 64, 64)
    node = NODE_CLASS_MAPPINGS["ROCMVAEPerformanceMonitor"]()
    lines = node.measure(vae, 512)["result"][1].splitlines()
    both = {}
    for name, mode in (("f32", "fp32"), ("f16", "fp16"), ("bf16", "bf16")):
        told = next(line for line in lines if line.startswith(f"{name}:"))
        host.engine().clear()
        gc.collect()
        before = counted_anew()
        decode_with("ROCMOptimizedVAEDecode", vae, latent, precision_mode=mode)
        most = float(told.split(" MiB")[0].rsplit(" ", 1)[1])
        both[f"peak of a decode in {name}"] = (most, (peak_bytes() - before) / MIB)
    usage, before = host.engine().usage(), measure.resident_bytes()
    NODE_CLASS_MAPPINGS["ROCMMemoryOptimizer"]().optimize("balanced", False, False, 1)
    freed = before - measure.resident_bytes()
    held = usage["weight_bytes"] + usage["arena_bytes"]
    both["what the engine keeps"] = (held / MIB, freed / MIB)
    print(json.dumps(both))


def counted_anew():
    """Bytes of this process, whose peak counts from here on."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return measure.resident_bytes()


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) << 10


def wall(run):
    """The median of five runs by the wall clock, after one."""
    return measure.repeat(run, 5)[0].median


def seconds_of(line):
    """The median that a line of a monitor tells."""
    return float(line.split(" s (n=")[0].rsplit(" ", 1)[1])


def apart(what, told, found):
    print(f"     {what}: told {told:.4g}, found {found:.4g}")
    check(f"{what}, apart by", abs(told / found - 1), 0.05, at_least=False)


def sd_vae():
    """ComfyUI's VAE of Stable Diffusion, of full size, and a latent of 512²."""
    vae = comfy.sd.VAE(sd=made_up(kl(4, True)), dtype=torch.float32)
    return vae, torch.randn(1, 4, 64, 64, generator=torch.Generator().manual_seed(4))


def decoded_by(kind, vae, latent):
    if kind == "stock":
        return nodes.VAEDecode().decode(vae, {"samples": latent})[0]
    return decode_with("ROCMOptimizedVAEDecode", vae, latent)


def peak_of(kind):
    """Bytes that two decodes of 512² take at most beyond what the process held before them, in a
    process of its own. It held the model's weights, the engine's threads and torch's: of the
    engine, what counts is its copy of weights, activations, scratch and pictures."""
    vae, latent = sd_vae()
    torch.nn.functional.conv2d(torch.zeros(1, 8, 16, 16), torch.zeros(8, 8, 3, 3))
    host.engine()
    gc.collect()
    before = counted_anew()
    for _ in range(2):
        decoded_by(kind, vae, latent)
    print(json.dumps(peak_bytes() - before))


def times():
    """Both decoders by turns: times in this process, memory in processes of their own."""
    vae, latent = sd_vae()
    taken, made = {"stock": [], "ours": []}, {}
    for turn in range(6):
        for kind in taken:
            begin = time.perf_counter()
            made[kind] = decoded_by(kind, vae, latent)
            if turn:
                taken[kind].append(time.perf_counter() - begin)
    check("picture, dB", psnr(made["ours"], made["stock"]), 50, at_least=True)
    peaks = {"stock": [], "ours": []}
    for _ in range(3):
        for kind in peaks:
            command = [sys.executable, __file__, COMFY, f"peak-{kind}"]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            peaks[kind].append(int(told.split()[-1]) / MIB)
    print("| decode of 512², SD's VAE | s | MiB beyond what the process held before |")
    print("| --- | --- | --- |")
    for kind in taken:
        t, m = taken[kind], peaks[kind]
        seconds = f"{statistics.median(t):.2f} [{min(t):.2f}..{max(t):.2f}]"
        print(f"| {kind} | {seconds} | {statistics.median(m):.0f} [{min(m):.0f}..{max(m):.0f}] |")
    plan = host.engine().plan_decode(weights.vae_of(vae), (512, 512), favor=host.favor())
    parts = [plan[f"{part}_bytes"] / MIB for part in ("peak", "weight", "host")]
    print("ours planned: {:.0f} MiB, {:.0f} of them weights; {:.0f} MiB in a file".format(*parts))
    share = statistics.median(taken["ours"]) / statistics.median(taken["stock"])
    check("share of the stock node's time", share, 0.45, at_least=False)
    share = statistics.median(peaks["ours"]) / statistics.median(peaks["stock"])
    check("share of the stock node's memory", share, 0.5, at_least=False)


if __name__ == "__main__":
    with torch.no_grad():
        if "vae" in PARTS:
            stock_must_not_run(vaes)
        for kind in ("sd15", "sdxl"):
            if kind in PARTS:
                stock_must_not_run(lambda: samplers(kind))
        if "graph" in PARTS:
            graphs()
        if "time" in PARTS:
            times()
        if "memory" in PARTS:
            memory()
            sys.exit()
        for part in PARTS:
            if part.startswith("peak-"):
                peak_of(part.removeprefix("peak-"))
                sys.exit()
    print(f"{len(failed)} failed" if failed else "all as they should be")
    sys.exit(1 if failed else 0)
