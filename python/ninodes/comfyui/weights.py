"""ComfyUI's loaded models as the engine's: the file they came from where that is known and nothing
was changed since, else the tensors in memory, where they lie."""

from __future__ import annotations

import os
import weakref
from typing import Any

import comfy.lora

import ninodes

from .host import Unknown

#: What was opened for a network of ComfyUI, with the patches it was opened for.
_opened: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()

#: The factor of tiny VAEs' latents, by which ComfyUI knows their space.
_TAESD_FORMATS = {0.18215: "sd15", 0.13025: "sdxl", 1.5305: "sd3", 0.3611: "flux"}


def vae_of(vae: Any) -> ninodes.Vae:
    """The engine's VAE for one of ComfyUI."""

    def of_file(path: str) -> ninodes.Vae:
        return ninodes.Vae.open(path)

    def of_tensors(tensors: dict[str, Any], name: str) -> ninodes.Vae:
        return ninodes.Vae.of_tensors(tensors, name)

    if getattr(vae, "latent_channels", 0) == 3:
        raise Unknown("the VAE works on pixels")
    return _open(vae.patcher, "", of_file, of_tensors)


def format_of(vae: Any) -> str | None:
    """The latent space of a tiny VAE; ``None`` for others, whose file says it."""
    factor = getattr(vae.first_stage_model, "vae_scale", None)
    if factor is None:
        return None
    near = min(_TAESD_FORMATS, key=lambda known: abs(known - float(factor)))
    if abs(near - float(factor)) > 1e-4:
        raise Unknown(f"the tiny VAE's latents are scaled by {float(factor)}")
    return _TAESD_FORMATS[near]


def diffusion_of(model: Any) -> ninodes.Diffusion:
    """The engine's diffusion model for one of ComfyUI, with its LoRAs applied."""

    def of_file(path: str) -> ninodes.Diffusion:
        return ninodes.Diffusion.open(path)

    def of_tensors(tensors: dict[str, Any], name: str) -> ninodes.Diffusion:
        return ninodes.Diffusion.of_tensors(tensors, name)

    return _open(model, "diffusion_model.", of_file, of_tensors)


def _open(patcher: Any, prefix: str, of_file: Any, of_tensors: Any) -> Any:
    network = patcher.model
    known = _opened.get(network)
    if known is not None and known[0] == patcher.patches_uuid:
        return known[1]
    path = _path(patcher)
    name = os.path.basename(path) if path else type(network).__name__
    try:
        if path is not None and not patcher.patches:
            opened = of_file(path)
        else:
            opened = of_tensors(_tensors(patcher, prefix), name)
    except ninodes.NinoError as why:
        raise Unknown(str(why)) from why
    except (BufferError, TypeError) as why:
        raise Unknown(f"its weights are of a kind not known here ({why})") from why
    _opened[network] = (patcher.patches_uuid, opened)
    return opened


def _path(patcher: Any) -> str | None:
    """The file that ComfyUI loaded, unless it was told to hold the weights in another type."""
    made = getattr(patcher, "cached_patcher_init", None)
    if made is None:
        return None
    path, options = made[1][0], [arg for arg in made[1] if isinstance(arg, dict)]
    changed = any(option.get("dtype") is not None for option in options)
    return path if isinstance(path, str) and os.path.isfile(path) and not changed else None


def _tensors(patcher: Any, prefix: str) -> dict[str, Any]:
    """Every weight as it is without what a device made of it, LoRAs applied as ComfyUI does."""
    tensors = {}
    for name, patches in patcher.get_key_patches(prefix or None).items():
        (weight, convert), *updates = patches
        if updates:
            changed = convert(weight.clone().float(), inplace=True)
            weight = comfy.lora.calculate_weight(updates, changed, name)
        tensors[name[len(prefix) :]] = weight
    return tensors
