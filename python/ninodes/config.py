"""Settings under the names that the first framework for these cards used, with what they mean here.

``MEANINGS`` says of every key what it does; a key that does nothing here says why.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

from .engine import Engine
from .models import Diffusion, Path

#: What every key does here.
MEANINGS = {
    "gpu_backend": "device: auto; cpu; opencl, rocm and vulkan are the best GPU (through Vulkan)",
    "gpu_device_id": "the adapter of this number, where the backend is not auto or cpu",
    "max_vram_usage_mb": "the budget of plans in MiB; what is free on the device when it is None",
    "enable_cpu_offload": "plans may keep weights and values in host memory: always on; off is an "
    "error where the model does not fit",
    "offload_threshold_mb": "nothing: the planner moves the least that makes a plan fit",
    "use_quantization": "weights of diffusion models are held in blocks of 8 or 4 bits",
    "quantization_bits": "8 holds them as q8_0, 4 as q4_k",
    "use_flash_attention": "nothing: attention never stores the full score matrix",
    "use_xformers": "nothing: there is no PyTorch",
    "default_batch_size": "pictures at a time when a call does not say",
    "max_batch_size": "a larger batch is refused by validate",
    "num_inference_steps": "steps when a call does not say",
    "guidance_scale": "cfg when a call does not say",
    "model_cache_dir": "the folder with models",
    "default_model": "the model when a call does not say; None is the built-in one",
    "log_level": "the level of the logger ninodes",
    "log_file": "a file for the logger ninodes",
    "enable_profiling": "calls of the config's engine are timed by its profiler",
    "chunk_size": "latent frames of a clip at a time: auto, 1, 2, 4 or 8",
    "memory_fraction": "share of the device's memory that plans may use",
    "memory_threshold": "nothing: plans are held to the budget before they run",
    "cleanup_frequency": "nothing: memory of a plan is given back when the call ends",
    "precision_mode": "storage of activations: auto, fp32, fp16 or bf16; sums are always f32, so "
    "mixed is fp16",
    "tile_size": "pixels of a tile where overlapped tiles are asked for",
    "overlap": "pixels that such tiles overlap",
}

BACKENDS = ("auto", "cpu", "opencl", "rocm", "vulkan", "gpu")
PRECISIONS = {"auto": "auto", "fp32": "f32", "fp16": "f16", "bf16": "bf16", "mixed": "f16"}


@dataclass
class Config:
    """Settings of an engine and of what it makes."""

    gpu_backend: str = "auto"
    gpu_device_id: int | None = None
    max_vram_usage_mb: int | None = None
    enable_cpu_offload: bool = True
    offload_threshold_mb: int = 512
    use_quantization: bool = False
    quantization_bits: int = 8
    use_flash_attention: bool = False
    use_xformers: bool = False
    default_batch_size: int = 1
    max_batch_size: int = 4
    num_inference_steps: int = 20
    guidance_scale: float = 7.5
    model_cache_dir: str = "./models"
    default_model: str | None = None
    log_level: str = "INFO"
    log_file: str | None = None
    enable_profiling: bool = False
    chunk_size: int | str = "auto"
    memory_fraction: float = 0.9
    memory_threshold: float = 0.8
    cleanup_frequency: int = 1
    precision_mode: str = "auto"
    tile_size: int = 768
    overlap: int = 96

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """A config with these values; an unknown key is an error that names the nearest."""
        return cls().update(**values)

    @classmethod
    def load(cls, path: Path) -> Config:
        """Reads a flat file of ``key: value`` (YAML) or ``key = value`` (TOML) lines."""
        with open(path, encoding="utf-8") as file:
            return cls.from_dict(_read(file.read(), os.fspath(path)))

    from_yaml = load
    from_toml = load

    def save(self, path: Path) -> None:
        """Writes it as TOML where the name ends so, else as YAML."""
        toml = os.fspath(path).endswith(".toml")
        lines = []
        for key, value in self.to_dict().items():
            if value is None:
                continue
            text = f'"{value}"' if isinstance(value, str) else str(value)
            text = text.lower() if isinstance(value, bool) else text
            lines.append(f"{key} = {text}" if toml else f"{key}: {text}")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    save_yaml = save

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def update(self, **values: Any) -> Config:
        """Changes values in place and checks them."""
        known = {field.name for field in dataclasses.fields(self)}
        for key, value in values.items():
            if key not in known:
                import difflib

                near = difflib.get_close_matches(key, known, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ValueError(f"there is no setting {key!r}{hint}")
            setattr(self, key, value)
        self.validate()
        return self

    def validate(self) -> None:
        """Raises ``ValueError`` for a value that cannot be meant."""
        _check(self.gpu_backend in BACKENDS, "gpu_backend is one of " + ", ".join(BACKENDS))
        _check(self.quantization_bits in (4, 8), "quantization_bits is 4 or 8")
        least = self.max_vram_usage_mb is None or self.max_vram_usage_mb >= 64
        _check(least, "max_vram_usage_mb is at least 64")
        fits = 1 <= self.default_batch_size <= self.max_batch_size
        _check(fits, "default_batch_size is from 1 to max_batch_size")
        _check(self.num_inference_steps >= 1, "num_inference_steps is at least 1")
        _check(self.chunk_size in ("auto", 1, 2, 4, 8), "chunk_size is auto, 1, 2, 4 or 8")
        _check(0.0 < self.memory_fraction <= 1.0, "memory_fraction is above 0 and at most 1")
        modes = ", ".join(PRECISIONS)
        _check(self.precision_mode in PRECISIONS, f"precision_mode is one of {modes}")

    def explain(self, key: str) -> str:
        """What a key does here."""
        return MEANINGS[key]

    def engine(self) -> Engine:
        """The engine that these settings ask for."""
        device = {"auto": "auto", "cpu": "cpu"}.get(self.gpu_backend, "gpu")
        if device == "gpu" and self.gpu_device_id is not None:
            device = f"gpu:{self.gpu_device_id}"
        budget = self.max_vram_usage_mb
        return Engine(device, budget=None if budget is None else budget << 20)

    def held(self, model: Diffusion) -> Diffusion:
        """The model quantized as the settings ask for."""
        if not self.use_quantization:
            return model
        return model.quantized("q8_0" if self.quantization_bits == 8 else "q4_k")

    def decode_options(self) -> dict[str, Any]:
        """Keyword arguments of ``Engine.decode``."""
        chunk = None if self.chunk_size == "auto" else int(self.chunk_size)
        return {"precision": PRECISIONS[self.precision_mode], "chunk": chunk}


#: Settings for a kind of machine or of model.
PRESETS = {
    "safe-start": {"max_vram_usage_mb": 3584, "max_batch_size": 1, "precision_mode": "fp32"},
    "rx580-8gb": {"gpu_backend": "vulkan", "max_vram_usage_mb": 7168, "max_batch_size": 2},
    "rx580-4gb": {
        "gpu_backend": "vulkan",
        "max_vram_usage_mb": 3584,
        "max_batch_size": 1,
        "use_quantization": True,
    },
    "gfx1151": {"gpu_backend": "vulkan", "max_batch_size": 8},
    "quantized": {"use_quantization": True, "tile_size": 512},
}


def preset(name: str) -> Config:
    """The config of a preset."""
    if name not in PRESETS:
        raise ValueError(f"a preset is one of {', '.join(PRESETS)}, not {name!r}")
    return Config.from_dict(PRESETS[name])


def _check(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)


def _read(text: str, path: str) -> dict[str, Any]:
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line or (line.startswith("[") and line.endswith("]")):
            continue
        cut = min((at for at in (line.find("="), line.find(":")) if at > 0), default=-1)
        if cut < 0:
            raise ValueError(f"{path}:{number}: expected a key and a value, found {line!r}")
        values[line[:cut].strip()] = _value(line[cut + 1 :].strip())
    return values


def _value(text: str) -> Any:
    plain = text.strip("\"'")
    if plain != text:
        return plain
    words = {"true": True, "false": False, "null": None, "none": None, "~": None, "": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
