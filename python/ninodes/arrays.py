"""Arrays of numpy and torch on their way to the engine and back, without copies where they can be
avoided: what is float32, contiguous and in host memory is read where it lies."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_torch(array: Any) -> bool:
    """Whether an array is a torch tensor. Torch is not imported for the question."""
    return type(array).__module__.partition(".")[0] == "torch"


def floats(array: Any) -> Any:
    """The array as float32 in host memory, in row-major order."""
    if is_torch(array):
        return array.detach().to(device="cpu", dtype=_torch().float32).contiguous()
    return _exportable(np.ascontiguousarray(array, dtype=np.float32))


def weights(array: Any) -> Any:
    """The array in host memory, in row-major order, in the type it has."""
    if is_torch(array):
        return array.detach().to(device="cpu").contiguous()
    return _exportable(np.ascontiguousarray(array))


def like(native: Any, given: Any) -> Any:
    """The engine's array as one of torch where ``given`` is one, else of numpy."""
    if is_torch(given):
        return _torch().from_dlpack(native)
    return np.from_dlpack(native)


def _exportable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where it is read-only and numpy is too old to export it so."""
    old = np.lib.NumpyVersion(np.__version__) < "2.1.0"
    return array.copy() if old and not array.flags.writeable else array


def _torch() -> Any:
    import torch

    return torch
