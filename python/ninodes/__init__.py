"""Diffusion models on any GPU or CPU: the engine of ``nino`` for Python.

    import ninodes

    engine = ninodes.Engine()                      # the best device there is
    model = ninodes.open_model("sd15.safetensors")
    prompt, nothing = engine.encode_text(model.text, ["red fox in snow", ""])
    latent = engine.sample(model.diffusion, prompt, nothing, size=(512, 512)).latent
    picture = engine.decode(model.vae, latent).images[0]

Arrays are those of numpy, or of torch where torch arrays were given.
"""

from ._native import NinoError, __version__
from .config import Config, PRESETS
from .engine import Decoded, Encoded, Engine, Sampled, default_engine, devices
from .memory import MemoryManager, MemoryStats
from .models import (
    Conditioning,
    Diffusion,
    Model,
    Text,
    Vae,
    inspect,
    open_model,
    samplers,
    schedulers,
    tensors,
)
from .profiler import Profiler

__all__ = [
    "Conditioning",
    "Config",
    "Decoded",
    "Diffusion",
    "Encoded",
    "Engine",
    "MemoryManager",
    "MemoryStats",
    "Model",
    "NinoError",
    "PRESETS",
    "Profiler",
    "Sampled",
    "Text",
    "Vae",
    "__version__",
    "default_engine",
    "devices",
    "inspect",
    "open_model",
    "samplers",
    "schedulers",
    "tensors",
]
