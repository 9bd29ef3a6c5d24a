"""What memory there is and what is used, by the engine's own books and the operating system's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .engine import Engine, default_engine

GIB = float(1 << 30)


@dataclass(frozen=True)
class MemoryStats:
    """Memory in GiB. ``used_vram_gb`` and its peak are what the engine has on its device."""

    total_ram_gb: float
    available_ram_gb: float
    used_ram_gb: float
    gpu_vram_gb: float
    used_vram_gb: float
    peak_vram_gb: float


class MemoryManager:
    """The memory of an engine. Numbers come from its allocator, not from what callers say; what
    other programs hold can be told with ``register_allocation``."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine or default_engine()
        self._others: dict[str, float] = {}

    def get_stats(self) -> MemoryStats:
        total, available = _host_memory()
        usage = self.engine.usage()
        used = usage["weight_bytes"] + usage["arena_bytes"]
        return MemoryStats(
            total_ram_gb=total / GIB,
            available_ram_gb=available / GIB,
            used_ram_gb=(total - available) / GIB,
            gpu_vram_gb=(self.engine.budget or 0) / GIB,
            used_vram_gb=used / GIB,
            peak_vram_gb=usage["peak_bytes"] / GIB,
        )

    def register_allocation(self, name: str, size_mb: float, is_gpu: bool = True) -> None:
        """Counts memory that somebody else holds on the device against what can be allocated."""
        if is_gpu:
            self._others[name] = size_mb

    def unregister_allocation(self, name: str) -> None:
        self._others.pop(name, None)

    def can_allocate(self, size_mb: float) -> bool:
        """Whether so much fits the engine's budget beside what is used. What is kept from earlier
        calls goes when something else needs the room, so only what is in use counts."""
        budget = self.engine.budget
        if budget is None:
            return True
        busy = self.engine.usage()["busy_bytes"] / (1 << 20)
        return size_mb + busy + sum(self._others.values()) <= budget / (1 << 20)

    def get_recommendations(
        self, model: str | os.PathLike[str], size: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """What plans say of a model here: whether it stays on the device, the largest batch up to
        16 that fits, and the peak of one picture."""
        plan = self.engine.plan(model, size=size)
        streamed = plan["streamed_bytes"] > 0
        batch = 1
        while batch < 16 and _fits(self.engine, model, size, batch * 2):
            batch *= 2
        notes = [f"one picture takes {plan['peak_bytes'] / GIB:.2f} GiB"]
        if streamed:
            notes.append("weights pass through the device while it runs: slower, same result")
        return {
            "use_gpu": self.engine.device != "cpu",
            "use_quantization": streamed,
            "use_cpu_offload": streamed,
            "max_batch_size": batch,
            "peak_bytes": plan["peak_bytes"],
            "notes": notes,
        }

    def print_stats(self) -> None:
        """Prints the stats, a line each."""
        for name, value in vars(self.get_stats()).items():
            print(f"{name:<18} {value:8.2f}")


def _fits(engine: Engine, model: Any, size: tuple[int, int] | None, batch: int) -> bool:
    from ._native import NinoError

    try:
        return engine.plan(model, size=size, batch=batch)["streamed_bytes"] == 0
    except NinoError:
        return False


def _host_memory() -> tuple[int, int]:
    """Bytes of the machine's memory, and of what is available."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = {line.split(":")[0]: int(line.split()[1]) << 10 for line in file}
        return fields["MemTotal"], fields["MemAvailable"]
    except (OSError, KeyError, ValueError, IndexError):
        return 0, 0
