"""Models out of files or out of tensors that are in memory, and encoded prompts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _native, arrays

Path = str | os.PathLike[str]


def cache_dir() -> str:
    """The folder for compiled kernels and the built-in model: ``nino``'s own."""
    if os.environ.get("NINO_CACHE"):
        return os.environ["NINO_CACHE"]
    home = os.path.expanduser("~")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return os.path.join(base, "nino")


def tensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor of a model file with its values in f32, one after the other: safetensors, GGUF,
    PyTorch's files, quantized ones decoded."""
    file = _native.Tensors.open(os.fspath(path))
    for name in file.names():
        yield name, np.from_dlpack(file.read(name))


class Vae:
    """A VAE: latents to pictures and back."""

    def __init__(self, native: _native.Vae) -> None:
        self.native = native

    @classmethod
    def open(cls, path: Path) -> Vae:
        """Reads the header of a VAE's file, or of a checkpoint's."""
        return cls(_native.Vae.open(os.fspath(path)))

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Any], name: str = "vae") -> Vae:
        """A VAE of tensors under the names of its file. They are used where they lie: keep them as
        they are while the VAE is in use. The name says the latent space of a tiny VAE."""
        plain = [(key, arrays.weights(value)) for key, value in tensors.items()]
        return cls(_native.Vae.of_tensors(name, plain))

    @classmethod
    def made_up(cls, name: str, seed: int = 0) -> Vae:
        """A known VAE with made-up weights, to try things without a file."""
        return cls(_native.Vae.made_up(name, seed))

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def latent_channels(self) -> int:
        return self.native.latent_channels

    @property
    def scale(self) -> int:
        """Pixels per latent pixel along one side."""
        return self.native.scale

    @property
    def time_scale(self) -> int | None:
        """Frames per latent frame; ``None`` of a VAE for pictures."""
        return self.native.time_scale

    @property
    def can_encode(self) -> bool:
        return self.native.can_encode


@dataclass(frozen=True)
class Defaults:
    """The settings that a model was made for."""

    steps: int
    cfg: float
    sampler: str
    scheduler: str
    size: int
    guidance: float | None


class Diffusion:
    """A diffusion model. What changes one gives another beside it."""

    def __init__(self, native: _native.Diffusion) -> None:
        self.native = native

    @classmethod
    def open(cls, path: Path) -> Diffusion:
        """Reads the header of a model's file, or of a checkpoint's."""
        return cls(_native.Diffusion.open(os.fspath(path)))

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Any], name: str = "model") -> Diffusion:
        """A model of tensors under the names of its file. They are used where they lie."""
        plain = [(key, arrays.weights(value)) for key, value in tensors.items()]
        return cls(_native.Diffusion.of_tensors(name, plain))

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def family(self) -> str:
        return self.native.family

    @property
    def latent_channels(self) -> int:
        return self.native.latent_channels

    @property
    def defaults(self) -> Defaults:
        return Defaults(*self.native.defaults)

    def quantized(self, dtype: str) -> Diffusion:
        """The same model with plain weights held as a block type, such as ``q8_0``."""
        return Diffusion(self.native.quantized(dtype))

    def predicting(self, prediction: str, zsnr: bool = False) -> Diffusion:
        """The same model sampled as one that predicts ``eps``, ``v`` or ``lcm``."""
        return Diffusion(self.native.predicting(prediction, zsnr))

    def shifted(self, shift: float, multiplier: float = 1000.0) -> Diffusion:
        """The same flow model over shifted levels: SD3's and Wan's."""
        return Diffusion(self.native.shifted(shift, multiplier))

    def shifted_by_mu(self, mu: float) -> Diffusion:
        """The same flow model over Flux's levels."""
        return Diffusion(self.native.shifted_by_mu(mu))


class Text:
    """The text encoders of a model."""

    def __init__(self, native: _native.Text) -> None:
        self.native = native

    @classmethod
    def open(cls, *paths: Path) -> Text:
        """Reads the headers of text encoders' files; their kinds say the family."""
        return cls(_native.Text.open([os.fspath(path) for path in paths]))

    @property
    def family(self) -> str:
        return self.native.family

    def with_clip_skip(self, layer: int | None) -> Text:
        """The same encoders stopped at another layer, counted from the last, which is 1."""
        return Text(self.native.with_clip_skip(layer))


@dataclass(frozen=True)
class Model:
    """A diffusion model with the text encoders and the VAE that belong to it."""

    diffusion: Diffusion
    text: Text
    vae: Vae

    def with_lora(
        self, path: Path, strength: float = 1.0, strength_clip: float | None = None
    ) -> Model:
        """The same model with a LoRA."""
        clip = strength if strength_clip is None else strength_clip
        diffusion, text = _native.apply_lora(
            os.fspath(path), self.diffusion.native, self.text.native, strength, clip
        )
        return Model(
            self.diffusion if diffusion is None else Diffusion(diffusion),
            self.text if text is None else Text(text),
            self.vae,
        )


def open_model(
    path: Path | None = None, *, clip: Sequence[Path] = (), vae: Path | None = None
) -> Model:
    """Opens a checkpoint, or a model whose text encoders and VAE are files of their own. Without a
    path it is the small model that is built in."""
    if path is None:
        path = _native.builtin(cache_dir())
    encoders = [os.fspath(p) for p in clip]
    parts = _native.checkpoint(os.fspath(path), encoders, None if vae is None else os.fspath(vae))
    diffusion, text, own = parts
    return Model(Diffusion(diffusion), Text(text), Vae(own))


def inspect(path: Path) -> dict[str, Any]:
    """What a model file is, from its header alone."""
    return _native.inspect(os.fspath(path))


def samplers() -> list[str]:
    """The names of all samplers, which are ComfyUI's."""
    return _native.samplers()[0]


def schedulers() -> list[str]:
    """The names of all schedulers, which are ComfyUI's."""
    return _native.samplers()[1]


Area = tuple[str, float, float, float, float]
Size = tuple[int, int]


class Conditioning:
    """An encoded prompt: what ComfyUI calls a conditioning."""

    def __init__(self, native: _native.Conditioning) -> None:
        self.native = native

    @classmethod
    def of(
        cls,
        context: Any,
        pooled: Any | None = None,
        *,
        guidance: float | None = None,
        original: Size | None = None,
        crop: Size = (0, 0),
        target: Size | None = None,
        score: float | None = None,
        area: Area | None = None,
        strength: float = 1.0,
        mask: Any | None = None,
        mask_strength: float = 1.0,
        mask_bounds: bool = False,
        percent: tuple[float, float] = (0.0, 1.0),
        seen: tuple[Any, Any | None] | None = None,
        references: Sequence[Any] = (),
        frames: tuple[Any, Any | None, int] | None = None,
        image: Any | None = None,
    ) -> Conditioning:
        """A prompt that somebody else encoded: the context is ``[tokens, width]``, the pooled
        vector ``[width]``. Sizes are width and height, ``area`` is ``latent`` or ``share`` with x,
        y, width and height, ``percent`` the part of the sampling in which the prompt counts,
        ``seen`` the latent of a picture, and its mask, that an inpaint or editing model sees.
        ``frames`` are latent frames that a video model sees, their mask (1 where to make them) and
        the channel it stands before, ``image`` CLIP's states of a picture, ``[tokens, width]``."""
        given = {
            "context": arrays.floats(context),
            "pooled": None if pooled is None else arrays.floats(pooled),
            "guidance": guidance,
            "original": original,
            "crop": crop,
            "target": target,
            "score": score,
            "area": area,
            "strength": strength,
            "mask": None if mask is None else arrays.floats(mask),
            "mask_strength": mask_strength,
            "mask_bounds": mask_bounds,
            "percent": percent,
            "seen": None if seen is None else tuple(_or_none(part) for part in seen),
            "references": [arrays.floats(reference) for reference in references],
            "frames": None if frames is None else (*map(_or_none, frames[:2]), frames[2]),
            "image": _or_none(image),
        }
        return cls(_native.Conditioning(given))

    @property
    def context(self) -> np.ndarray:
        return np.from_dlpack(self.native.context)

    @property
    def pooled(self) -> np.ndarray | None:
        pooled = self.native.pooled
        return None if pooled is None else np.from_dlpack(pooled)

    def with_guidance(self, guidance: float | None) -> Conditioning:
        """The same prompt for a Flux that is told another guidance."""
        return Conditioning(self.native.with_guidance(guidance))

    def zeroed(self) -> Conditioning:
        """Zeros in the place of every value."""
        return Conditioning(self.native.zeroed())


def _or_none(array: Any | None) -> Any | None:
    return None if array is None else arrays.floats(array)
