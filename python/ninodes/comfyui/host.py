"""What every node needs of ComfyUI: progress, interrupts, memory, and its own functions."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import comfy.model_management
import comfy.utils

import ninodes

log = logging.getLogger("ninodes")
T = TypeVar("T")

#: ComfyUI's own, which asks its models alone.
_free = comfy.model_management.free_memory

PRECISIONS = {"auto": "auto", "fp32": "f32", "fp16": "f16", "bf16": "bf16", "mixed": "f16"}


class Unknown(Exception):
    """The engine does not know something that ComfyUI does; the text says what."""


def ours_or_stock(what: str, ours: Callable[[], T], stock: Callable[[], T]) -> T:
    """The engine's result, or ComfyUI's own where the engine does not know how."""
    try:
        return ours()
    except Unknown as why:
        log.info("%s: ComfyUI's own function is used, because %s", what, why)
        return stock()


@functools.cache
def engine() -> ninodes.Engine:
    """The engine of all nodes. ComfyUI's "unload models" unloads it, too, and where giving up
    models of its own does not free what ComfyUI needs, what the engine keeps is given up."""
    made = ninodes.default_engine()
    manager = comfy.model_management
    unload = manager.unload_all_models

    def unload_all_models(*args: Any, **kwargs: Any) -> Any:
        made.clear()
        return unload(*args, **kwargs)

    def free_memory(memory_required: float, device: Any, *args: Any, **kwargs: Any) -> Any:
        freed = _free(memory_required, device, *args, **kwargs)
        shared = device is not None and (device.type == "cpu") == (made.device == "cpu")
        if shared and manager.get_free_memory(device) < memory_required:
            made.clear()
        return freed

    manager.unload_all_models, manager.free_memory = unload_all_models, free_memory
    log.info("ninodes runs on %s (%s)", made.device, made.device_model)
    return made


def favor() -> str:
    """What decodes are planned for. A CPU's memory is where ComfyUI has its models: there it is
    worth some time."""
    return "memory" if engine().device == "cpu" else "time"


def make_room(needed: Callable[[], int]) -> None:
    """Lets ComfyUI give up models of its own, where both use a GPU's memory."""
    device = comfy.model_management.get_torch_device()
    if engine().device != "cpu" and device.type != "cpu":
        _free(needed(), device)


def progress(steps: int | None = None, preview: Any = None) -> Callable[[str, float, int], None]:
    """Moves ComfyUI's progress bar and stops the work when the user interrupts it. Without a number
    of steps the bar has a hundred parts."""
    bar = comfy.utils.ProgressBar(steps or 100)

    def tell(stage: str, done: float, total: int) -> None:
        comfy.model_management.throw_exception_if_processing_interrupted()
        if stage not in ("sample", "decode", "encode") or total == 0:
            return
        if steps is None:
            bar.update_absolute(int(100 * done / total), 100)
        else:
            bar.update_absolute(int(done), total, preview.take() if preview else None)

    return tell


def latent_tensor(latent: Any) -> Any:
    """The tensor of a LATENT, which is a dictionary; one made of several tensors is not known."""
    samples = latent["samples"]
    if getattr(samples, "is_nested", False):
        raise Unknown("the latent is made of several tensors")
    return samples


def as_comfy(tensor: Any) -> Any:
    """A tensor where ComfyUI wants results to lie."""
    device = comfy.model_management.intermediate_device()
    return tensor.to(device=device, dtype=comfy.model_management.intermediate_dtype())
