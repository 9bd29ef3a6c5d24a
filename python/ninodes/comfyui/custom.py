"""SamplerCustomAdvanced on the engine, and its benchmark: both ways by turns, with warm-up."""

from __future__ import annotations

import inspect
from typing import Any

import comfy.sample
import comfy_extras.nodes_custom_sampler as stock_custom

import ninodes
from ninodes import measure

from . import host, sampling

CATEGORY = sampling.CATEGORY

#: Guiders that are plain guidance by a number.
_GUIDERS = ("CFGGuider", "Guider_Basic")


def sampler_name(sampler: Any) -> str:
    """The name of a SAMPLER; one with settings of its own is not known."""
    if getattr(sampler, "extra_options", None) or getattr(sampler, "inpaint_options", None):
        raise host.Unknown("the sampler has settings of its own")
    function = getattr(getattr(sampler, "sampler_function", None), "__name__", "")
    name = function.removeprefix("sample_").removesuffix("_function")
    if name not in ninodes.samplers():
        raise host.Unknown(f"the sampler is {name or type(sampler).__name__}")
    return name


def _conditioning(guider: Any, side: str) -> list[Any]:
    """A guider's prompts as a CONDITIONING."""
    made = []
    for said in guider.original_conds.get(side, []):
        rest = {k: v for k, v in said.items() if k not in ("cross_attn", "model_conds", "uuid")}
        made.append([said["cross_attn"], rest])
    return made


def sample(noise: Any, guider: Any, sampler: Any, sigmas: Any, latent: Any):
    """Both LATENTs of SamplerCustomAdvanced, by the engine."""
    if type(guider).__name__ not in _GUIDERS:
        raise host.Unknown(f"the guider is {type(guider).__name__}")
    model = guider.model_patcher
    ratios = (latent.get("downscale_ratio_spacial"), latent.get("downscale_ratio_temporal"))
    given = comfy.sample.fix_empty_latent_channels(model, host.latent_tensor(latent), *ratios)
    plain = {k: v for k, v in latent.items() if not k.startswith("downscale_ratio")}
    plain |= {"samples": given}
    drawn = noise.generate_noise(plain)
    made = sampling.sample(
        model,
        _conditioning(guider, "positive"),
        _conditioning(guider, "negative"),
        plain,
        noise=drawn,
        add_noise=bool(drawn.any()),
        sigmas=sigmas,
        sampler=sampler_name(sampler),
        seed=noise.seed,
        cfg=guider.cfg,
        precision="auto",
    )
    denoised = plain | {"samples": host.as_comfy(made.denoised)}
    return plain | {"samples": host.as_comfy(made.latent)}, denoised


def stock(noise: Any, guider: Any, sampler: Any, sigmas: Any, latent: Any):
    """Both LATENTs of ComfyUI's own node."""
    made = stock_custom.SamplerCustomAdvanced.execute(noise, guider, sampler, sigmas, latent)
    return tuple(getattr(made, "result", made))


def _inputs() -> dict[str, Any]:
    return {
        "noise": ("NOISE",),
        "guider": ("GUIDER",),
        "sampler": ("SAMPLER",),
        "sigmas": ("SIGMAS",),
        "latent_image": ("LATENT",),
    }


class SamplerCustomAdvanced:
    """SamplerCustomAdvanced's latents, on the engine of nino."""

    TITLE = "ROCm Sampler Custom Advanced"
    RETURN_TYPES = ("LATENT", "LATENT")
    RETURN_NAMES = ("output", "denoised_output")
    FUNCTION = "sample"
    CATEGORY = CATEGORY

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        kept = {"default": "auto", "tooltip": "Kept for old workflows: always on."}
        attention = (["auto", "disable_flash", "force_flash"], kept)
        optional = {"compatibility_mode": ("BOOLEAN", {"default": False})}
        return {"required": _inputs(), "optional": optional | {"flash_attention": attention}}

    def sample(
        self,
        noise: Any,
        guider: Any,
        sampler: Any,
        sigmas: Any,
        latent_image: Any,
        compatibility_mode: bool = False,
        flash_attention: str = "auto",
    ):
        same = (noise, guider, sampler, sigmas, latent_image)
        if compatibility_mode:
            return stock(*same)
        what = "SamplerCustomAdvanced"
        return host.ours_or_stock(what, lambda: sample(*same), lambda: stock(*same))


class SamplerCustomAdvancedBenchmark:
    """Samples with both, by turns, three times after a warm-up, and tells medians and p."""

    TITLE = "ROCm Sampler Custom Advanced Benchmark"
    RETURN_TYPES = ("LATENT", "STRING")
    RETURN_NAMES = ("output", "BENCHMARK_REPORT")
    FUNCTION = "sample"
    CATEGORY = CATEGORY
    RUNS = 3

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": _inputs()}

    def sample(self, noise: Any, guider: Any, sampler: Any, sigmas: Any, latent_image: Any):
        same = (noise, guider, sampler, sigmas, latent_image)
        times: dict[str, list[float]] = {"ComfyUI": [], "ninodes": []}
        results = {}
        for turn in range(self.RUNS + 1):
            for name, run in (("ComfyUI", stock), ("ninodes", sample)):
                series, results[name] = measure.repeat(lambda: run(*same), 1, 0)
                times[name] += series.times if turn else ()
        theirs, ours = (measure.Series(tuple(times[name])) for name in times)
        error = _nmse(results["ninodes"][0]["samples"], results["ComfyUI"][0]["samples"])
        report = inspect.cleandoc(
            f"""
            ComfyUI: {theirs}
            ninodes: {ours}
            share: {ours.median / theirs.median:.2f}, p {measure.significance(ours, theirs):.2f}
            difference of the latents (NMSE): {error:.1e}
            """
        )
        return results["ninodes"][0], report


def _nmse(ours: Any, theirs: Any) -> float:
    return float((ours - theirs).double().pow(2).sum() / theirs.double().pow(2).sum())


NODES = {
    "ROCMSamplerCustomAdvanced": SamplerCustomAdvanced,
    "ROCMSamplerCustomAdvancedBenchmark": SamplerCustomAdvancedBenchmark,
}
