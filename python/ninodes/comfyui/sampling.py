"""Sampling nodes: the latents of KSampler and KSampler (Advanced)."""

from __future__ import annotations

from typing import Any

import comfy.cli_args
import comfy.sample
import comfy.samplers
import latent_preview
import nodes as stock_nodes
import torch

from . import host, levels, prompts, weights

CATEGORY = "ROCm Ninodes/Sampling"


class Previews:
    """Holds the last preview until the progress bar takes it."""

    def __init__(self) -> None:
        self._last: Any = None

    def show(self, picture: Any) -> None:
        from PIL import Image

        pixels = (picture.cpu().numpy() * 255).round().astype("uint8")
        image = Image.fromarray(pixels)
        self._last = ("JPEG", image, latent_preview.MAX_PREVIEW_RESOLUTION)

    def take(self) -> Any:
        taken, self._last = self._last, None
        return taken


def sample(
    model: Any,
    positive: Any,
    negative: Any,
    latent: Any,
    *,
    noise: Any,
    add_noise: bool,
    sigmas: Any,
    sampler: str,
    seed: int,
    cfg: float,
    precision: str,
):
    """A LATENT's tensor as ComfyUI samples it, by the engine."""
    levels.check_plain(model)
    known = levels.sampled_as(model, weights.diffusion_of(model))
    mask = prompts.mask_of(latent.get("noise_mask"))
    wanted = comfy.cli_args.args.preview_method
    none = latent_preview.LatentPreviewMethod.NoPreviews
    previews = None if wanted == none else Previews()
    made = host.engine().sample(
        known,
        prompts.prompts_of(positive),
        prompts.prompts_of(negative),
        latent=host.latent_tensor(latent),
        noise=noise,
        add_noise=add_noise,
        mask=mask,
        sigmas=sigmas.tolist(),
        sampler=sampler,
        seed=seed,
        cfg=cfg,
        precision=precision,
        progress=host.progress(len(sigmas) - 1, previews),
        preview=None if previews is None else previews.show,
    )
    host.log.debug("sample: %s", made.report)
    return made


def ksampler(
    model: Any,
    seed: int,
    steps: int,
    cfg: float,
    sampler_name: str,
    scheduler: str,
    positive: Any,
    negative: Any,
    latent: Any,
    *,
    denoise: float = 1.0,
    add_noise: bool = True,
    window: tuple[int, int] | None = None,
    leftover_noise: bool = True,
    precision: str = "auto",
):
    """ComfyUI's ``common_ksampler``: a LATENT. ``window`` is the first step and the one after the
    last."""
    schedule = comfy.samplers.KSampler(
        model,
        steps=steps,
        device=torch.device("cpu"),
        sampler=sampler_name,
        scheduler=scheduler,
        denoise=denoise,
        model_options=model.model_options,
    )
    sigmas = schedule.sigmas.clone()
    ratios = (latent.get("downscale_ratio_spacial"), latent.get("downscale_ratio_temporal"))
    given = host.latent_tensor(latent)
    given = comfy.sample.fix_empty_latent_channels(model, given, *ratios)
    if window is not None:
        start, end = window
        if end < len(sigmas) - 1:
            sigmas = sigmas[: end + 1]
            if not leftover_noise:
                sigmas[-1] = 0
        sigmas = sigmas[start:] if start < len(sigmas) - 1 else sigmas[:0]
    made = {k: v for k, v in latent.items() if not k.startswith("downscale_ratio")}
    if len(sigmas) == 0:
        return made | {"samples": given}
    noise = None
    if add_noise:
        noise = comfy.sample.prepare_noise(given, seed, latent.get("batch_index"))
    sampled = sample(
        model,
        positive,
        negative,
        latent | {"samples": given},
        noise=noise,
        add_noise=add_noise,
        sigmas=sigmas,
        sampler=sampler_name,
        seed=seed,
        cfg=cfg,
        precision=precision,
    )
    return made | {"samples": host.as_comfy(sampled.latent)}


def _steps_and_names() -> dict[str, Any]:
    return {
        "steps": ("INT", {"default": 20, "min": 1, "max": 10000}),
        "cfg": ("FLOAT", {"default": 8.0, "min": 0.0, "max": 100.0, "step": 0.1, "round": 0.01}),
        "sampler_name": (comfy.samplers.KSampler.SAMPLERS,),
        "scheduler": (comfy.samplers.KSampler.SCHEDULERS,),
        "positive": ("CONDITIONING",),
        "negative": ("CONDITIONING",),
        "latent_image": ("LATENT",),
    }


def _optional() -> dict[str, Any]:
    kept = {"tooltip": "Kept for old workflows: clips need no setting."}
    stock = {"tooltip": "On uses ComfyUI's own sampler."}
    return {
        "optimize_for_video": ("BOOLEAN", {"default": False} | kept),
        "precision_mode": (["auto", "fp32", "bf16", "fp16"], {"default": "auto"}),
        "compatibility_mode": ("BOOLEAN", {"default": False} | stock),
    }


_SEED = {"default": 0, "min": 0, "max": 2**64 - 1, "control_after_generate": True}


class KSampler:
    """Samples a latent: KSampler's, on the engine of nino."""

    TITLE = "ROCm KSampler"
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "sample"
    CATEGORY = CATEGORY
    DESCRIPTION = "Samples a latent on the engine of nino: the latent of KSampler."

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        share = {"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.01}
        required = {"model": ("MODEL",), "seed": ("INT", _SEED)}
        required |= _steps_and_names() | {"denoise": ("FLOAT", share)}
        return {"required": required, "optional": _optional()}

    def sample(
        self,
        model: Any,
        seed: int,
        steps: int,
        cfg: float,
        sampler_name: str,
        scheduler: str,
        positive: Any,
        negative: Any,
        latent_image: Any,
        denoise: float = 1.0,
        optimize_for_video: bool = False,
        precision_mode: str = "auto",
        compatibility_mode: bool = False,
        **_old: Any,
    ):
        same = (model, seed, steps, cfg, sampler_name, scheduler, positive, negative, latent_image)

        def stock():
            return stock_nodes.common_ksampler(*same, denoise=denoise)

        def ours():
            precision = host.PRECISIONS[precision_mode]
            return (ksampler(*same, denoise=denoise, precision=precision),)

        return stock() if compatibility_mode else host.ours_or_stock("KSampler", ours, stock)


class KSamplerAdvanced:
    """Samples some steps of a schedule: KSampler (Advanced)'s, on the engine of nino."""

    TITLE = "ROCm KSampler Advanced"
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "sample"
    CATEGORY = CATEGORY
    DESCRIPTION = "Samples steps of a schedule on the engine of nino."

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        step = {"min": 0, "max": 10000}
        required = {
            "model": ("MODEL",),
            "add_noise": (["enable", "disable"],),
            "noise_seed": ("INT", _SEED),
        }
        required |= _steps_and_names() | {
            "start_at_step": ("INT", {"default": 0} | step),
            "end_at_step": ("INT", {"default": 10000} | step),
            "return_with_leftover_noise": (["disable", "enable"],),
        }
        return {"required": required, "optional": _optional()}

    def sample(
        self,
        model: Any,
        add_noise: str,
        noise_seed: int,
        steps: int,
        cfg: float,
        sampler_name: str,
        scheduler: str,
        positive: Any,
        negative: Any,
        latent_image: Any,
        start_at_step: int,
        end_at_step: int,
        return_with_leftover_noise: str,
        optimize_for_video: bool = False,
        precision_mode: str = "auto",
        compatibility_mode: bool = False,
        **_old: Any,
    ):
        same = (model, noise_seed, steps, cfg, sampler_name, scheduler, positive, negative)
        same += (latent_image,)
        leftover = return_with_leftover_noise == "enable"

        def stock():
            return stock_nodes.common_ksampler(
                *same,
                disable_noise=add_noise == "disable",
                start_step=start_at_step,
                last_step=end_at_step,
                force_full_denoise=not leftover,
            )

        def ours():
            made = ksampler(
                *same,
                add_noise=add_noise != "disable",
                window=(start_at_step, end_at_step),
                leftover_noise=leftover,
                precision=host.PRECISIONS[precision_mode],
            )
            return (made,)

        if compatibility_mode:
            return stock()
        return host.ours_or_stock("KSampler (Advanced)", ours, stock)


NODES = {"ROCMOptimizedKSampler": KSampler, "ROCMOptimizedKSamplerAdvanced": KSamplerAdvanced}
