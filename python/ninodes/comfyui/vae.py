"""Decoding nodes: pictures and clips, exactly within the memory there is."""

from __future__ import annotations

from typing import Any

import nodes as stock_nodes
import torch

from . import host, weights

CATEGORY = "ROCm Ninodes/VAE"


def decode(vae: Any, samples: Any, *, precision: str, tile: Any = None, chunk: int | None = None):
    """A LATENT's pictures ``[n, height, width, 3]``, by the engine."""
    latent = host.latent_tensor(samples)
    engine, known = host.engine(), weights.vae_of(vae)
    if latent.ndim == 5 and known.time_scale is None:
        # As ComfyUI: the first frame is the picture.
        latent = latent[:, :, 0]
    if latent.ndim not in (4, 5):
        raise ValueError(f"a latent has 4 or 5 dimensions, this one has {latent.ndim}")
    frames = latent.shape[2] if latent.ndim == 5 else 1
    size = (latent.shape[-1] * known.scale, latent.shape[-2] * known.scale)
    how = {"precision": precision, "tile": tile, "chunk": chunk, "favor": host.favor()}
    host.make_room(lambda: engine.plan_decode(known, size, frames=frames, **how)["peak_bytes"])
    form = weights.format_of(vae)
    decoded = engine.decode(known, latent, format=form, progress=host.progress(), **how)
    host.log.debug("decode: %s", decoded.report)
    return host.as_comfy(torch.clamp_(decoded.images, 0.0, 1.0))


class VAEDecode:
    """Decodes a latent exactly, whole or within the memory there is. Latents of clips give all of
    their frames, one after the other."""

    TITLE = "ROCm VAE Decode"
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "decode"
    CATEGORY = CATEGORY
    DESCRIPTION = "Decodes a latent on the engine of nino: the picture of VAE Decode."

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        unused = {"tooltip": "Kept for old workflows: the decode is exact without tiles."}
        tile = {"default": 768, "min": 256, "max": 2048, "step": 64}
        overlap = {"default": 96, "min": 32, "max": 512, "step": 16}
        always = {"tooltip": "Kept for old workflows: always on."}
        stock = {"default": True, "tooltip": "Off uses ComfyUI's own decoder."}
        temporal = {"default": "auto", "tooltip": "Clips are cut only where it is exact."}
        chunk = {"default": 16, "min": 4, "max": 256, "step": 2}
        size = {"tooltip": "Latent frames at a time, where temporal tiling is enabled."}
        exact = {"default": 2, "min": 1, "max": 8}
        return {
            "required": {
                "samples": ("LATENT",),
                "vae": ("VAE",),
                "tile_size": ("INT", tile | unused),
                "overlap": ("INT", overlap | unused),
                "use_rocm_optimizations": ("BOOLEAN", stock),
                "precision_mode": (["auto", "fp32", "fp16", "bf16"], {"default": "auto"}),
                "batch_optimization": ("BOOLEAN", {"default": True} | always),
            },
            "optional": {
                "compatibility_mode": (
                    "BOOLEAN",
                    {"default": False, "tooltip": "On uses ComfyUI's own decoder."},
                ),
                "enable_temporal_tiling": (["auto", "enable", "disable"], temporal),
                "temporal_chunk_size": ("INT", chunk | size),
                "temporal_overlap": ("INT", exact | unused),
                "last_frame_fix": ("BOOLEAN", {"default": False} | unused),
            },
        }

    @classmethod
    def VALIDATE_INPUTS(cls, enable_temporal_tiling: Any = "auto", precision_mode: Any = "auto"):
        """Old workflows hold a boolean for temporal tiling, and ``mixed`` as a precision."""
        return enable_temporal_tiling in ("auto", "enable", "disable", True, False) and (
            precision_mode in host.PRECISIONS
        )

    def decode(
        self,
        samples: Any,
        vae: Any,
        tile_size: int = 768,
        overlap: int = 96,
        use_rocm_optimizations: bool = True,
        precision_mode: str = "auto",
        batch_optimization: bool = True,
        compatibility_mode: bool = False,
        enable_temporal_tiling: Any = "auto",
        temporal_chunk_size: int = 16,
        temporal_overlap: int = 2,
        last_frame_fix: bool = False,
        **_old: Any,
    ):
        def stock():
            return stock_nodes.VAEDecode().decode(vae, samples)

        def ours():
            chunk = temporal_chunk_size if enable_temporal_tiling in ("enable", True) else None
            precision = host.PRECISIONS[precision_mode]
            return (decode(vae, samples, precision=precision, chunk=chunk),)

        if compatibility_mode or not use_rocm_optimizations:
            return stock()
        return host.ours_or_stock("VAE decode", ours, stock)


class VAEDecodeTiled:
    """Decodes in overlapped tiles, which is not exact. Frames of clips are decoded exactly all the
    same, because a clip that is cut in time jitters."""

    TITLE = "ROCm VAE Decode Tiled"
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "decode"
    CATEGORY = CATEGORY
    DESCRIPTION = "Decodes a latent in overlapped tiles: less memory, not exact."

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        tile = {"default": 768, "min": 256, "max": 2048, "step": 64}
        overlap = {"default": 96, "min": 32, "max": 512, "step": 16}
        size = {"default": 64, "min": 8, "max": 4096, "step": 4}
        between = {"default": 8, "min": 4, "max": 4096, "step": 4}
        return {
            "required": {
                "samples": ("LATENT",),
                "vae": ("VAE",),
                "tile_size": ("INT", tile),
                "overlap": ("INT", overlap),
                "temporal_size": ("INT", size),
                "temporal_overlap": ("INT", between),
                "rocm_optimizations": ("BOOLEAN", {"default": True}),
            }
        }

    def decode(
        self,
        samples: Any,
        vae: Any,
        tile_size: int,
        overlap: int,
        temporal_size: int,
        temporal_overlap: int,
        rocm_optimizations: bool,
    ):
        def stock():
            tiled = stock_nodes.VAEDecodeTiled()
            return tiled.decode(vae, samples, tile_size, overlap, temporal_size, temporal_overlap)

        def ours():
            tile = (tile_size, min(overlap, tile_size // 4))
            return (decode(vae, samples, precision="auto", tile=tile),)

        if not rocm_optimizations:
            return stock()
        return host.ours_or_stock("tiled VAE decode", ours, stock)


NODES = {"ROCMOptimizedVAEDecode": VAEDecode, "ROCMOptimizedVAEDecodeTiled": VAEDecodeTiled}
