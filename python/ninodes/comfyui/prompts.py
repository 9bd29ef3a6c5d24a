"""ComfyUI's CONDITIONING as the engine's: a list of encoded prompts, each with what nodes said of
it. What is said and not known here is an error, never left out."""

from __future__ import annotations

from typing import Any

import ninodes

from .host import Unknown

#: What nodes can say of a prompt and the engine understands.
_KNOWN = {
    "pooled_output",
    "guidance",
    "width",
    "height",
    "crop_w",
    "crop_h",
    "target_width",
    "target_height",
    "aesthetic_score",
    "area",
    "strength",
    "mask",
    "mask_strength",
    "set_area_to_bounds",
    "start_percent",
    "end_percent",
    "concat_latent_image",
    "concat_mask",
    "concat_mask_index",
    "clip_vision_output",
    "reference_latents",
}


def prompts_of(conditioning: Any) -> list[ninodes.Conditioning]:
    """All prompts of a CONDITIONING."""
    return [_prompt(context, said) for context, said in conditioning]


def _prompt(context: Any, said: dict[str, Any]) -> ninodes.Conditioning:
    more = sorted(key for key, value in said.items() if key not in _KNOWN and value is not None)
    if more:
        raise Unknown(f"the prompt says {', '.join(more)}")
    if context.ndim != 3 or context.shape[0] != 1:
        raise Unknown("a prompt differs from picture to picture of the batch")
    pooled = said.get("pooled_output")
    return ninodes.Conditioning.of(
        context[0],
        None if pooled is None else pooled[0],
        guidance=said.get("guidance"),
        original=_pair(said, "width", "height"),
        crop=(said.get("crop_w", 0), said.get("crop_h", 0)),
        target=_pair(said, "target_width", "target_height"),
        score=said.get("aesthetic_score"),
        area=_area(said.get("area")),
        strength=said.get("strength", 1.0),
        mask=mask_of(said.get("mask")),
        mask_strength=said.get("mask_strength", 1.0),
        mask_bounds=said.get("set_area_to_bounds", False),
        percent=(said.get("start_percent", 0.0), said.get("end_percent", 1.0)),
        seen=_seen(said),
        references=said.get("reference_latents") or (),
        frames=_frames(said),
        image=_image(said.get("clip_vision_output")),
    )


def _pair(said: dict[str, Any], width: str, height: str) -> tuple[int, int] | None:
    return (said[width], said[height]) if said.get(width) and said.get(height) else None


def _area(area: Any) -> tuple[str, float, float, float, float] | None:
    """ComfyUI's areas are height, width, y and x, in latent pixels or as shares."""
    if area is None:
        return None
    unit, numbers = ("share", area[1:]) if area[0] == "percentage" else ("latent", area)
    if len(numbers) != 4:
        raise Unknown("the area has a place in time")
    height, width, y, x = numbers
    return (unit, x, y, width, height)


def mask_of(mask: Any) -> Any:
    """A MASK, with or without a dimension of channels, as ``[height, width]``."""
    if mask is not None and mask.ndim == 4:
        mask = mask[:, 0]
    if mask is None:
        return None
    if mask.ndim > 2 and mask.shape[0] != 1:
        raise Unknown("the mask differs from picture to picture of the batch")
    return mask.reshape(mask.shape[-2:])


def _seen(said: dict[str, Any]) -> tuple[Any, Any] | None:
    picture = said.get("concat_latent_image")
    if picture is None or picture.ndim == 5:
        return None
    if picture.ndim != 4 or picture.shape[0] != 1:
        raise Unknown("the model sees more than one picture")
    return picture, mask_of(said.get("concat_mask"))


def _frames(said: dict[str, Any]) -> tuple[Any, Any, int] | None:
    """The latent frames that a video model sees, ``[1, c, t, h, w]``, and their mask."""
    frames, mask = said.get("concat_latent_image"), said.get("concat_mask")
    if frames is None or frames.ndim != 5:
        return None
    if frames.shape[0] != 1 or (mask is not None and (mask.ndim != 5 or mask.shape[0] != 1)):
        raise Unknown("the model sees more than one clip")
    return frames, mask, said.get("concat_mask_index", 0)


def _image(seen: Any) -> Any:
    """CLIP's states of a CLIP_VISION_OUTPUT's pictures, one after the other."""
    return None if seen is None else seen.penultimate_hidden_states.flatten(0, 1)

