"""Monitors: nodes that run real decodes and steps, and say what they took."""

from __future__ import annotations

import gc
import os
import time
import uuid
from typing import Any

import comfy.model_management
import folder_paths
import torch

import ninodes
from ninodes import charts, measure
from ninodes.history import History

from . import host, levels, weights

CATEGORY = "ROCm Ninodes/Monitoring"
MIB = 1 << 20
RUNS = 5


def _device() -> str:
    engine = host.engine()
    budget = "no limit" if engine.budget is None else f"{engine.budget // MIB} MiB"
    tier = f", tier {engine.native.tier}" if engine.native.tier else ""
    return f"{engine.device}: {engine.device_model}{tier}; plans may use {budget}"


def _most(peak: int) -> str:
    """What a call took on the device, as the engine allocated it: weights and activations. The
    process holds the pictures and what Python needs beside it."""
    return f"{peak // MIB} MiB of weights and activations at most"


def _known(what: str, open_: Any) -> Any:
    """The engine's model, or an error that names what it is not known for."""
    try:
        return open_()
    except host.Unknown as why:
        raise ValueError(f"this {what} cannot be measured here: {why}") from why


def _shown(*texts: str, chart: Any = None) -> dict[str, Any]:
    """Texts to read in the node, and its chart as a picture below them."""
    shown: dict[str, Any] = {"text": list(texts)}
    if chart is not None:
        shown["images"] = [_saved(charts.picture(*chart))]
    return {"ui": shown, "result": texts}


def _saved(picture: Any) -> dict[str, str]:
    """A picture in ComfyUI's folder for previews, as pages are told of it."""
    folder = folder_paths.get_temp_directory()
    os.makedirs(folder, exist_ok=True)
    name = f"ninodes_{uuid.uuid4().hex}.png"
    picture.save(os.path.join(folder, name))
    return {"filename": name, "subfolder": "", "type": "temp"}


class VAEMonitor:
    """Decodes a random latent with every precision, after a warm-up, and compares with f32."""

    TITLE = "ROCm VAE Performance Monitor"
    RETURN_TYPES = ("STRING", "STRING", "STRING")
    RETURN_NAMES = ("DEVICE_INFO", "PERFORMANCE_TIPS", "OPTIMAL_SETTINGS")
    FUNCTION = "measure"
    CATEGORY = CATEGORY
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        size = {"default": 1024, "min": 256, "max": 4096, "step": 64}
        return {"required": {"vae": ("VAE",), "test_resolution": ("INT", size)}}

    def measure(self, vae: Any, test_resolution: int):
        engine, known = host.engine(), _known("VAE", lambda: weights.vae_of(vae))
        form = weights.format_of(vae)
        side = test_resolution // known.scale
        shape = [1, known.latent_channels, side, side]
        if known.time_scale:
            shape.insert(2, 1)
        latent = torch.randn(shape, generator=torch.Generator().manual_seed(0))

        def decode(precision: str) -> ninodes.Decoded:
            how = {"precision": precision, "format": form, "favor": host.favor()}
            return engine.decode(known, latent, progress=host.progress(), **how)

        exact = decode("f32").images
        rows, lines, best = [], [], None
        for precision in ("f32", "f16", "bf16"):
            try:
                series, made = measure.repeat(lambda: decode(precision), RUNS)
            except ninodes.NinoError as why:
                lines.append(f"{precision}: not on this device ({why})")
                continue
            quality = measure.psnr(made.images, exact)
            peak = made.report["peak_bytes"]
            what = f"decode {known.name} {test_resolution}² {precision}"
            history = History()
            history.add(engine.device, what, series, peak)
            trend = history.trend(engine.device, what)
            text = f"{series}; {_most(peak)}; {quality:.1f} dB to f32; {trend}"
            lines.append(f"{precision}: {text}")
            rows.append((precision, series.median, f"{series.median:.2f} s"))
            if quality >= 40 and (best is None or series.median < best[1]):
                best = (precision, series.median, peak)
        title = f"{known.name} at {test_resolution}²"
        size = (test_resolution, test_resolution)
        plan = engine.plan_decode(known, size, favor=host.favor())
        tips = [
            *lines,
            f"planned {plan['peak_bytes'] // MIB} MiB, {plan['strategy']}; "
            f"most in {plan['peak_op']}",
            charts.bars(title, rows),
        ]
        chosen = f"precision_mode: {best[0]}" if best else "precision_mode: fp32"
        settings = f"{chosen} (fastest of those at 40 dB or more to f32)"
        return _shown(_device(), "\n".join(tips), settings, chart=(title, rows))


class SamplerMonitor:
    """Takes steps of a model with an empty prompt and times each."""

    TITLE = "ROCm Sampler Performance Monitor"
    RETURN_TYPES = ("STRING", "STRING", "STRING")
    RETURN_NAMES = ("DEVICE_INFO", "PERFORMANCE_TIPS", "OPTIMAL_SETTINGS")
    FUNCTION = "measure"
    CATEGORY = CATEGORY
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        steps = {"default": 20, "min": 1, "max": 100}
        return {"required": {"model": ("MODEL",), "test_steps": ("INT", steps)}}

    def measure(self, model: Any, test_steps: int):
        known = _known("model", lambda: levels.sampled_as(model, weights.diffusion_of(model)))
        usual = known.defaults
        series, report = steps_of(known, usual.size, test_steps, usual.cfg)
        what = f"step {known.name} {usual.size}²"
        history = History()
        history.add(host.engine().device, what, series, report["peak_bytes"])
        total = report["seconds"]
        tips = [
            f"a step at {usual.size}², cfg {usual.cfg}: {series}",
            f"{test_steps} steps {total:.2f} s by the engine's clock, {sum(series.times):.2f} s as "
            f"the sum of the steps after the first; {_most(report['peak_bytes'])}",
            history.trend(host.engine().device, what),
        ]
        settings = f"steps {usual.steps}, cfg {usual.cfg}, {usual.sampler}, {usual.scheduler}"
        rows = [(f"step {i + 2}", taken, f"{taken:.3f} s") for i, taken in enumerate(series.times)]
        return _shown(_device(), "\n".join(tips), settings, chart=(what, rows))


def steps_of(known: ninodes.Diffusion, size: Any, steps: int, cfg: float):
    """Times of all steps but the first, which warms up, and the engine's report. Prompts are zeros:
    what a step takes does not depend on them."""
    prompt = ninodes.Conditioning(known.native.blank_prompt())
    marks: list[float] = []
    tell = host.progress(steps + 1)

    def heard(stage: str, done: float, total: int) -> None:
        tell(stage, done, total)
        if stage == "sample" and total and done == int(done):
            marks.append(time.perf_counter())

    width, height = size if isinstance(size, tuple) else (size, size)
    made = host.engine().sample(
        known,
        prompt,
        prompt,
        size=(width, height),
        steps=steps + 1,
        cfg=cfg,
        sampler="euler",
        progress=heard,
    )
    times = tuple(b - a for a, b in zip(marks[1:], marks[2:]))
    return measure.Series(times or (made.report["seconds"],)), made.report


class FluxBenchmark:
    """Samples and decodes at several sizes and strengths of guidance."""

    TITLE = "ROCm Flux Benchmark"
    RETURN_TYPES = ("STRING",) * 4
    RETURN_NAMES = (
        "BENCHMARK_RESULTS",
        "PERFORMANCE_CHART",
        "OPTIMIZATION_RECOMMENDATIONS",
        "MEMORY_ANALYSIS",
    )
    FUNCTION = "measure"
    CATEGORY = "ROCm Ninodes/Benchmark"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        kept = {"default": True, "tooltip": "Kept for old workflows: there is no hipBLAS here."}
        return {
            "required": {
                "model": ("MODEL",),
                "vae": ("VAE",),
                "clip": ("CLIP",),
                "test_resolutions": ("STRING", {"default": "256x320,512x512,1024x1024"}),
                "test_steps": ("INT", {"default": 20, "min": 1, "max": 100}),
                "test_cfg_values": ("STRING", {"default": "1.0,3.5,8.0"}),
                "test_hipblas": ("BOOLEAN", kept),
                "generate_report": ("BOOLEAN", {"default": True}),
            }
        }

    def measure(
        self,
        model: Any,
        vae: Any,
        clip: Any,
        test_resolutions: str,
        test_steps: int,
        test_cfg_values: str,
        test_hipblas: bool,
        generate_report: bool,
    ):
        known = _known("model", lambda: levels.sampled_as(model, weights.diffusion_of(model)))
        decoder = _known("VAE", lambda: weights.vae_of(vae))
        form, engine = weights.format_of(vae), host.engine()
        lines, rows, memory = [], [], []
        for size in _sizes(test_resolutions):
            for cfg in (float(value) for value in test_cfg_values.split(",")):
                series, report = steps_of(known, size, test_steps, cfg)
                name = f"{size[0]}x{size[1]}, cfg {cfg:g}"
                lines.append(f"{name}: a step {series}")
                rows.append((name, series.median, f"{series.median:.3f} s a step"))
                memory.append(f"sample {name}: {report['peak_bytes'] // MIB} MiB")
            shape = (1, decoder.latent_channels, size[1] // 8, size[0] // 8)
            latent = torch.randn(shape, generator=torch.Generator().manual_seed(0))
            series, made = measure.repeat(lambda: _decode(decoder, latent, form), 3)
            lines.append(f"{size[0]}x{size[1]}: decode {series}")
            memory.append(f"decode {size[0]}x{size[1]}: {made.report['peak_bytes'] // MIB} MiB")
        title = f"{known.name} on {engine.device}"
        chart = charts.bars(title, rows)
        advice = "cfg 1 takes one run of the model a step, any other cfg two"
        report = "\n".join([_device(), *lines]) if generate_report else lines[0]
        texts = (report, chart, advice, "\n".join(memory))
        return _shown(*texts, chart=(title, rows))


def _decode(vae: ninodes.Vae, latent: Any, form: str | None) -> ninodes.Decoded:
    return host.engine().decode(vae, latent, format=form, progress=host.progress())


def _sizes(text: str) -> list[tuple[int, int]]:
    sizes = []
    for size in text.split(","):
        width, _, height = size.strip().partition("x")
        if not (width.isdigit() and height.isdigit()):
            raise ValueError(f"a size is WIDTHxHEIGHT, not {size!r}")
        sizes.append((int(width) // 16 * 16, int(height) // 16 * 16))
    return sizes


class MemoryOptimizer:
    """Says what is in memory, gives back what the level allows, and says what that gave."""

    TITLE = "ROCm Memory Optimizer"
    RETURN_TYPES = ("STRING", "STRING", "STRING")
    RETURN_NAMES = ("MEMORY_STATUS", "OPTIMIZATION_LOG", "RECOMMENDATIONS")
    FUNCTION = "optimize"
    CATEGORY = "ROCm Ninodes/Memory"
    OUTPUT_NODE = True
    _calls = 0

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        every = {"default": 10, "min": 1, "max": 100}
        levels_ = ["conservative", "balanced", "aggressive"]
        return {
            "required": {
                "optimization_level": (levels_, {"default": "balanced"}),
                "enable_gc": ("BOOLEAN", {"default": True}),
                "clear_cache": ("BOOLEAN", {"default": True}),
                "cleanup_frequency": ("INT", every),
            }
        }

    @classmethod
    def IS_CHANGED(cls, **_inputs: Any) -> float:
        return float("nan")

    def optimize(
        self, optimization_level: str, enable_gc: bool, clear_cache: bool, cleanup_frequency: int
    ):
        engine, log = host.engine(), []
        before = _memory()
        due = MemoryOptimizer._calls % cleanup_frequency == 0
        MemoryOptimizer._calls += 1
        if due and enable_gc:
            log.append(f"Python's collector freed {gc.collect()} objects")
        if due and clear_cache:
            comfy.model_management.soft_empty_cache()
            log.append("ComfyUI's cache of free device memory was given back")
        if due and optimization_level != "conservative":
            engine.clear()
            log.append("the engine's models and plans were given back")
        if due and optimization_level == "aggressive":
            comfy.model_management.unload_all_models()
            log.append("ComfyUI's models were unloaded")
        after = _memory()
        log.append(f"the process holds {(before - after) // MIB} MiB less than before")
        usage, stats = engine.usage(), ninodes.MemoryManager(engine).get_stats()
        status = [
            _device(),
            f"engine: {usage['weight_bytes'] // MIB} MiB weights, "
            f"{usage['arena_bytes'] // MIB} MiB arenas, peak {usage['peak_bytes'] // MIB} MiB, "
            f"{usage['loads']} loads",
            f"host: {stats.available_ram_gb:.1f} of {stats.total_ram_gb:.1f} GiB available; this "
            f"process {after // MIB} MiB",
        ]
        advice = "nothing to do: plans keep to the budget by themselves"
        if not due:
            advice = f"cleaned up every {cleanup_frequency} calls; this was not one of them"
        return _shown("\n".join(status), "\n".join(log), advice)


def _memory() -> int:
    return measure.resident_bytes() or 0


NODES = {
    "ROCMVAEPerformanceMonitor": VAEMonitor,
    "ROCMSamplerPerformanceMonitor": SamplerMonitor,
    "ROCMFluxBenchmark": FluxBenchmark,
    "ROCMMemoryOptimizer": MemoryOptimizer,
}
