"""A device with the models that stay on it, and the stages that run there."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _native, arrays
from .models import Conditioning, Diffusion, Path, Text, Vae, cache_dir
from .statistics import Statistics

#: Called with a stage's name, what is done of it, and how much there is (0 where that is not
#: known). What it raises stops the work and comes out of the call.
Progress = Callable[[str, float, int], None]
#: Called with pictures of the unfinished latent, ``[height, width, 3]`` in 0..1.
Preview = Callable[[Any], None]


@dataclass(frozen=True)
class Decoded:
    """Pictures ``[n, height, width, 3]`` and how they came about."""

    images: Any
    #: strategy, precision, planned_bytes, peak_bytes, host_bytes (what waited outside the device's
    #: memory: for a CPU in a temporary file), tiles, retries, recoveries, load_seconds, seconds.
    report: dict[str, Any]


@dataclass(frozen=True)
class Encoded:
    """A latent ``[b, c, h, w]``, or ``[b, c, t, h, w]`` of a clip, and how it came about."""

    latent: Any
    report: dict[str, Any]


@dataclass(frozen=True)
class Sampled:
    """The latent at the last noise level, the last prediction of the finished one, and how they
    came about."""

    latent: Any
    denoised: Any
    report: dict[str, Any]


class Engine:
    """One device. Models that were used stay on it within its budget, so that the next call does
    not load them again; ``keep=False`` gives everything back after each call."""

    def __init__(
        self,
        device: str = "auto",
        *,
        budget: int | str | None = None,
        threads: int | None = None,
        tier: str | None = None,
        keep: bool = True,
    ) -> None:
        self._statistics = Statistics()
        self.native = _native.Engine(
            {
                "device": device,
                "tier": tier,
                "budget": None if budget is None else in_bytes(budget),
                "threads": threads,
                "cache_dir": cache_dir(),
                "keep": keep,
            }
        )

    @property
    def device(self) -> str:
        """``cpu`` or ``gpu:N``."""
        return self.native.device

    @property
    def device_model(self) -> str:
        """What the device's maker calls it."""
        return self.native.device_model

    @property
    def budget(self) -> int | None:
        """The most bytes that plans may use."""
        return self.native.budget

    def encode_text(
        self,
        text: Text,
        prompts: Sequence[str],
        *,
        embeddings: Sequence[Path] = (),
        progress: Progress | None = None,
    ) -> list[Conditioning]:
        """Encodes prompts in ComfyUI's syntax. ``embeddings`` are folders with textual
        inversions."""
        folders = [os.fspath(folder) for folder in embeddings]
        calls = _callbacks(progress)
        encoded = self._counted(
            lambda: self.native.encode_text(text.native, list(prompts), folders, calls)
        )
        return [Conditioning(native) for native in encoded]

    def sample(
        self,
        model: Diffusion,
        positive: Conditioning | Sequence[Conditioning],
        negative: Conditioning | Sequence[Conditioning] = (),
        *,
        latent: Any | None = None,
        size: tuple[int, int] | None = None,
        batch: int = 1,
        sigmas: Sequence[float] | None = None,
        steps: int | None = None,
        sampler: str | None = None,
        scheduler: str | None = None,
        denoise: float = 1.0,
        seed: int = 0,
        cfg: float | None = None,
        noise: Any | None = None,
        add_noise: bool = True,
        mask: Any | None = None,
        precision: str = "auto",
        progress: Progress | None = None,
        preview: Preview | None = None,
        preview_every: int = 1,
    ) -> Sampled:
        """Samples a latent, starting from ``latent`` or from nothing of ``size`` (width and height
        in pixels). What is not said is as the model was made for; ``sigmas`` replaces steps,
        scheduler and denoise. Noise is drawn as torch draws it, unless it is given."""
        usual = model.defaults
        name = sampler or usual.sampler
        if latent is None:
            width, height = size or (usual.size, usual.size)
            shape = (batch, model.latent_channels, height // 8, width // 8)
            latent = np.zeros(shape, dtype=np.float32)
        if sigmas is None:
            schedule = scheduler or usual.scheduler
            count = usual.steps if steps is None else steps
            sigmas = self.native.sigmas(model.native, name, schedule, count, denoise)
        given = {
            "positive": _natives(positive),
            "negative": _natives(negative),
            "latent": arrays.floats(latent),
            "noise": None if noise is None else arrays.floats(noise),
            "add_noise": add_noise,
            "mask": None if mask is None else arrays.floats(mask),
            "sigmas": [float(sigma) for sigma in sigmas],
            "sampler": name,
            "seed": seed,
            "cfg": usual.cfg if cfg is None else cfg,
            "precision": precision,
            "preview_every": None if preview is None else preview_every,
        }
        show = None if preview is None else lambda native: preview(arrays.like(native, latent))
        made, denoised, report = self._counted(
            lambda: self.native.sample(model.native, given, _callbacks(progress, show))
        )
        return Sampled(arrays.like(made, latent), arrays.like(denoised, latent), report)

    def decode(
        self,
        vae: Vae,
        latent: Any,
        *,
        precision: str = "auto",
        tile: tuple[int, int] | None = None,
        chunk: int | None = None,
        format: str | None = None,
        budget: int | str | None = None,
        favor: str = "time",
        progress: Progress | None = None,
    ) -> Decoded:
        """Decodes ``[b, c, h, w]`` or ``[b, c, t, h, w]`` to pictures; frames of clips stand one
        after the other. The decode is whole where that fits, else exact within the budget;
        ``tile``, pixels of a tile and of its overlap, asks for overlapped tiles, which are not
        exact. ``chunk`` is latent frames at a time, ``format`` the latent space of a tiny VAE.
        ``favor="memory"`` takes the least memory of plans that take at most a quarter longer than
        the quickest one, which is ``"time"``'s; the picture is the same."""
        options = _decode_options(precision, tile, chunk, format, budget, favor)
        native, report = self._counted(
            lambda: self.native.decode(
                vae.native, arrays.floats(latent), options, _callbacks(progress)
            )
        )
        self._statistics.heard(report, native.shape[0])
        return Decoded(arrays.like(native, latent), report)

    def encode(
        self,
        vae: Vae,
        images: Any,
        *,
        precision: str = "auto",
        format: str | None = None,
        progress: Progress | None = None,
    ) -> Encoded:
        """Encodes pictures ``[n, height, width, 3]`` in 0..1, whose sides are multiples of the
        VAE's scale; they are the frames of one clip where the VAE is one for clips."""
        options = {"precision": precision, "format": format}
        native, report = self._counted(
            lambda: self.native.encode(
                vae.native, arrays.floats(images), options, _callbacks(progress)
            )
        )
        return Encoded(arrays.like(native, images), report)

    def plan_decode(
        self,
        vae: Vae,
        size: tuple[int, int],
        *,
        frames: int = 1,
        precision: str = "auto",
        tile: tuple[int, int] | None = None,
        chunk: int | None = None,
        budget: int | str | None = None,
        favor: str = "time",
    ) -> dict[str, Any]:
        """What a decode would take: ``size`` is width and height of the pictures, ``frames`` counts
        latent frames. Nothing is loaded."""
        width, height = size
        latent = (frames, height // vae.scale, width // vae.scale)
        options = _decode_options(precision, tile, chunk, None, budget, favor)
        return self.native.plan_decode(vae.native, latent, options)

    def plan(
        self, model: Path, *, size: tuple[int, int] | None = None, batch: int = 1
    ) -> dict[str, Any]:
        """What a picture would take, by a model's file or by the name of a known description, such
        as ``sd15`` or ``sdxl``. Nothing is loaded."""
        return self.native.plan_generate(os.fspath(model), size, batch)

    def usage(self) -> dict[str, int]:
        """Bytes of weights and arenas on the device, the peak of both, and loads so far."""
        return self.native.usage()

    def statistics(self) -> dict[str, float | int | None]:
        """What the calls so far came to; ``ninodes.statistics`` says what each number means."""
        return self._statistics.summary()

    def _counted(self, run: Callable[[], Any]) -> Any:
        return self._statistics.watch(run, lambda: self.native.usage()["loads"])

    def reset_peak(self) -> None:
        """Counts the peak anew."""
        self.native.reset_peak()

    def clear(self) -> None:
        """Gives back everything that no call is using."""
        self.native.clear()


@functools.cache
def default_engine() -> Engine:
    """The engine that functions use which are given none: the best device there is, or the one that
    ``NINO_DEVICE`` names."""
    return Engine(os.environ.get("NINO_DEVICE", "auto"))


def devices() -> list[dict[str, Any]]:
    """Every device of this machine, the CPU first: name, model, tiers, is_software, budget."""
    return _native.devices()


UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def in_bytes(size: int | str) -> int:
    """Bytes of a size such as ``3.5GiB``."""
    if isinstance(size, int):
        return size
    digits = size.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = size.strip()[len(digits) :].strip().lower()
    try:
        return int(float(digits) * UNITS[unit])
    except (KeyError, ValueError):
        raise ValueError(f"a size is a number with a unit, such as 3.5GiB, not {size!r}") from None


def _natives(prompts: Conditioning | Sequence[Conditioning]) -> list[_native.Conditioning]:
    several = [prompts] if isinstance(prompts, Conditioning) else prompts
    return [prompt.native for prompt in several]


def _callbacks(progress: Progress | None, preview: Any = None) -> dict[str, Any]:
    return {"progress": progress, "preview": preview}


def _decode_options(
    precision: str,
    tile: tuple[int, int] | None,
    chunk: int | None,
    format: str | None,
    budget: int | str | None,
    favor: str,
) -> dict[str, Any]:
    return {
        "precision": precision,
        "tile": tile,
        "chunk": chunk,
        "format": format,
        "budget": None if budget is None else in_bytes(budget),
        "favor": favor,
    }
