"""How a MODEL of ComfyUI is sampled, for the engine: its prediction and noise levels; and whether a
graph changed it in ways that the engine does not know."""

from __future__ import annotations

from typing import Any

import ninodes

from .host import Unknown


def sampled_as(model: Any, known: ninodes.Diffusion) -> ninodes.Diffusion:
    """The engine's model, sampled as the graph says. The levels are compared with ComfyUI's."""
    sampling = model.get_model_object("model_sampling")
    kinds = {kind.__name__ for kind in type(sampling).__mro__}
    if "ModelSamplingFlux" in kinds:
        known = known.shifted_by_mu(sampling.shift)
    elif "ModelSamplingDiscreteFlow" in kinds:
        if getattr(sampling, "noise_scale", 1.0) != 1.0:
            raise Unknown("the model scales its noise")
        known = known.shifted(sampling.shift, sampling.multiplier)
    elif "LCM" in kinds:
        known = known.predicting("lcm", bool(getattr(sampling, "zsnr", False)))
    elif "ModelSamplingContinuousEDM" in kinds:
        pass  # the file says it, and the levels are compared
    elif "ModelSamplingDiscrete" in kinds and kinds & {"EPS", "V_PREDICTION"}:
        if kinds & {"X0", "EDM", "IMG_TO_IMG"}:
            raise Unknown("the model predicts the picture itself")
        prediction = "v" if "V_PREDICTION" in kinds else "eps"
        known = known.predicting(prediction, bool(getattr(sampling, "zsnr", False)))
    else:
        raise Unknown(f"the model is sampled by {', '.join(sorted(kinds))}")
    _compare(known.native.levels, sampling.sigmas.tolist())
    return known


def _compare(ours: list[float], theirs: list[float]) -> None:
    if len(ours) != len(theirs):
        raise Unknown(f"the model has {len(theirs)} noise levels, {len(ours)} are known")
    for a, b in zip(ours, theirs):
        if abs(a - b) > 1e-4 * abs(b):
            raise Unknown(f"the model has a noise level {b} where {a} is known")


def check_plain(model: Any) -> None:
    """Raises ``Unknown`` where a graph changed more of the model than its weights and levels."""
    options = {key: value for key, value in model.model_options.items() if value}
    options.pop("transformer_options", None)
    blocks = {k: v for k, v in model.model_options.get("transformer_options", {}).items() if v}
    changed = [*options, *blocks]
    changed += [name for name in model.object_patches if name != "model_sampling"]
    changed += [name for name in ("hook_patches", "injections") if getattr(model, name, None)]
    for name in ("callbacks", "wrappers", "additional_models"):
        for kind, calls in getattr(model, name, {}).items():
            several = calls.values() if isinstance(calls, dict) else calls
            changed += [kind] if any(several) else []
    if changed:
        raise Unknown(f"nodes changed the model: {', '.join(sorted(map(str, changed)))}")
