"""Loading nodes. They give ComfyUI's own objects, which remember their file, so that our nodes read
it by themselves; nothing is loaded twice into a GPU's memory unless both kinds of node use it."""

from __future__ import annotations

import os
from typing import Any

import comfy.sd
import folder_paths
import nodes as stock_nodes
import torch

import ninodes

from . import host

CATEGORY = "ROCm Ninodes/Loaders"


def _tell(path: str) -> None:
    """Logs what a file is, by its tensors."""
    try:
        found = ninodes.inspect(path)
    except ninodes.NinoError as why:
        host.log.info("%s: %s", os.path.basename(path), why)
        return
    parts = ", ".join(part["model"] for part in found["parts"]) or "nothing known"
    stored = found["quantization"] or "plain"
    host.log.info("%s: %s (%s)", os.path.basename(path), parts, stored)


class CheckpointLoader:
    """Loads a checkpoint: MODEL, CLIP and VAE. A file that was replaced is read again."""

    TITLE = "ROCm Checkpoint Loader"
    RETURN_TYPES = ("MODEL", "CLIP", "VAE")
    FUNCTION = "load"
    CATEGORY = CATEGORY
    _kept: tuple[Any, Any] | None = None

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        kept = {"default": True, "tooltip": "Keeps the last checkpoint in memory."}
        return {
            "required": {"ckpt_name": (folder_paths.get_filename_list("checkpoints"),)},
            "optional": {
                "use_cache": ("BOOLEAN", kept),
                "force_reload": ("BOOLEAN", {"default": False}),
                "compatibility_mode": ("BOOLEAN", {"default": False}),
            },
        }

    def load(
        self, ckpt_name: str, use_cache: bool = True, force_reload: bool = False, **_old: Any
    ):
        path = folder_paths.get_full_path_or_raise("checkpoints", ckpt_name)
        stat = os.stat(path)
        identity = (path, stat.st_mtime_ns, stat.st_size)
        kept = CheckpointLoader._kept
        if use_cache and not force_reload and kept is not None and kept[0] == identity:
            return kept[1]
        _tell(path)
        loaded = tuple(stock_nodes.CheckpointLoaderSimple().load_checkpoint(ckpt_name))
        CheckpointLoader._kept = (identity, loaded) if use_cache else None
        return loaded


class DiffusionLoader:
    """Loads a diffusion model. Types that a file scales its weights in are never changed."""

    TITLE = "ROCm Diffusion Loader"
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "load"
    CATEGORY = CATEGORY

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        types = ["default", "fp8_e4m3fn", "fp8_e5m2"]
        return {
            "required": {"unet_name": (folder_paths.get_filename_list("diffusion_models"),)},
            "optional": {"weight_dtype": (types, {"default": "default"})},
        }

    def load(self, unet_name: str, weight_dtype: str = "default"):
        path = folder_paths.get_full_path_or_raise("diffusion_models", unet_name)
        _tell(path)
        if "scaled" in str(ninodes.inspect(path)["encodings"]):
            weight_dtype = "default"
        return stock_nodes.UNETLoader().load_unet(unet_name, weight_dtype)


def _gguf_files() -> None:
    """ComfyUI lists no GGUF files by itself."""
    paths = list(folder_paths.folder_names_and_paths["diffusion_models"][0])
    folder_paths.folder_names_and_paths.setdefault("unet_gguf", (paths, {".gguf"}))


def load_gguf(path: str):
    """A MODEL of a GGUF file. ComfyUI's own nodes see its weights decoded to f16; ours read them
    from the file as they are."""
    state = {name: torch.from_numpy(values).half() for name, values in ninodes.tensors(path)}
    model = comfy.sd.load_diffusion_model_state_dict(state)
    if model is None:
        raise ValueError(f"{os.path.basename(path)} has no diffusion model that ComfyUI knows")
    model.cached_patcher_init = (load_gguf, (path,))
    return model


class GGUFLoader:
    """Loads a diffusion model of a GGUF file, in any of its quantizations."""

    TITLE = "ROCm GGUF Loader"
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "load"
    CATEGORY = CATEGORY

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        _gguf_files()
        return {"required": {"gguf_name": (folder_paths.get_filename_list("unet_gguf"),)}}

    def load(self, gguf_name: str):
        _gguf_files()
        path = folder_paths.get_full_path_or_raise("unet_gguf", gguf_name)
        _tell(path)
        return (load_gguf(path),)


class LoraLoader:
    """Applies a LoRA to a MODEL, and to a CLIP where one is given."""

    TITLE = "ROCm LoRA Loader"
    RETURN_TYPES = ("MODEL", "CLIP")
    FUNCTION = "load"
    CATEGORY = CATEGORY

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        strength = {"default": 1.0, "min": -10.0, "max": 10.0, "step": 0.01}
        return {
            "required": {
                "model": ("MODEL",),
                "lora_name": (folder_paths.get_filename_list("loras"),),
                "strength_model": ("FLOAT", strength),
                "strength_clip": ("FLOAT", strength),
            },
            "optional": {"clip": ("CLIP",)},
        }

    def load(
        self,
        model: Any,
        lora_name: str,
        strength_model: float,
        strength_clip: float,
        clip: Any = None,
    ):
        loader = stock_nodes.LoraLoader()
        return loader.load_lora(model, clip, lora_name, strength_model, strength_clip)


NODES = {
    "ROCMOptimizedCheckpointLoader": CheckpointLoader,
    "ROCmDiffusionLoader": DiffusionLoader,
    "ROCmGGUFLoader": GGUFLoader,
    "ROCMLoRALoader": LoraLoader,
}
