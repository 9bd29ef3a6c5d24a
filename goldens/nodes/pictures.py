"""What ComfyUI's nodes of pictures, masks and latents make of small ones.

    COMFYUI=PATH/TO/ComfyUI python goldens/nodes/pictures.py

Written with ComfyUI 0.30.0. `pictures.json` has the graphs, and `pictures.safetensors` what its
nodes `LoadImage` and `LoadLatent` load and what the last node of each graph gives: pictures
`[b, h, w, 3]`, masks `[b, h, w]`, latents `[b, h, w, c]`, of clips `[b, t, h, w, c]`.
"""

import asyncio
import json
import os
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

HERE = Path(__file__).parent


def node(kind, **inputs):
    return {"class_type": kind, "inputs": inputs}


A, B, X, Y, V = ["a", 0], ["b", 0], ["x", 0], ["y", 0], ["v", 0]
M, N = ["m", 0], ["n", 0]
FIRST = {
    "a": node("LoadImage", image="a.png"),
    "b": node("LoadImage", image="b.png"),
    "x": node("LoadLatent", latent="x.latent"),
    "y": node("LoadLatent", latent="y.latent"),
    "v": node("LoadLatent", latent="v.latent"),
    "m": node("ImageToMask", image=A, channel="red"),
    "n": node("ImageToMask", image=B, channel="green"),
    "two": node("ImageBatch", image1=A, image2=B),
    # Of bytes, which levels and Pillow tell apart.
    "i": node("ImageInvert", image=A),
    "pair": node("ImageBatch", image1=A, image2=["i", 0]),
}

CASES = {
    "mask_of_blue": [node("ImageToMask", image=A, channel="blue")],
    "image_of_mask": [node("MaskToImage", mask=M)],
    "color_to_mask": [node("EmptyImage", width=5, height=4, batch_size=2, color=0x10F0A3), node("ImageColorToMask", image=["1", 0], color=0x10F0A3)],
    "color_of_picture": [node("ImageColorToMask", image=A, color=0)],
    "crop": [node("ImageCrop", image=A, width=7, height=50, x=3, y=2)],
    "batch": [node("ImageBatch", image1=A, image2=B)],
    "repeat": [node("RepeatImageBatch", image=["two", 0], amount=2)],
    "from_batch": [node("ImageFromBatch", image=["two", 0], batch_index=-1, length=5)],
    "to_pixels": [node("ImageScaleToTotalPixels", image=A, upscale_method="bicubic", megapixels=0.01, resolution_steps=8)],
    "threshold": [node("ThresholdMask", mask=M, value=0.4)],
    "crop_mask": [node("CropMask", mask=M, x=4, y=1, width=5, height=30)],
    "composite": [node("ImageCompositeMasked", destination=A, source=B, x=5, y=3, resize_source=False)],
    "composite_masked": [node("ImageCompositeMasked", destination=A, source=B, x=2, y=0, resize_source=False, mask=M)],
    "composite_resized": [node("ImageCompositeMasked", destination=["two", 0], source=B, x=0, y=0, resize_source=True, mask=N)],
    "latent_composite": [node("LatentComposite", samples_to=X, samples_from=Y, x=24, y=16, feather=0)],
    "latent_feathered": [node("LatentComposite", samples_to=X, samples_from=Y, x=16, y=8, feather=16)],
    "latent_masked": [node("LatentCompositeMasked", destination=X, source=Y, x=8, y=16, resize_source=False, mask=M)],
    "latent_resized": [node("LatentCompositeMasked", destination=X, source=Y, x=0, y=0, resize_source=True)],
    "add": [node("LatentAdd", samples1=X, samples2=Y)],
    "subtract": [node("LatentSubtract", samples1=X, samples2=Y)],
    "multiply": [node("LatentMultiply", samples=X, multiplier=-1.5)],
    "latent_blend": [node("LatentBlend", samples1=X, samples2=Y, blend_factor=0.3)],
    "latent_batch": [node("LatentBatch", samples1=X, samples2=Y)],
    "latent_crop": [node("LatentCrop", samples=X, width=64, height=64, x=200, y=8)],
    "flip_x": [node("LatentFlip", samples=X, flip_method="x-axis: vertically")],
    "flip_y": [node("LatentFlip", samples=X, flip_method="y-axis: horizontally")],
    "flip_image_x": [node("ImageFlip", image=A, flip_method="x-axis: vertically")],
    "flip_image_y": [node("ImageFlip", image=A, flip_method="y-axis: horizontally")],
    "blur": [node("ImageBlur", image=A, blur_radius=3, sigma=0.7)],
    "sharpen": [node("ImageSharpen", image=A, sharpen_radius=2, sigma=1.3, alpha=0.4)],
}  # fmt: skip
WAYS = {
    "dimensions": {"width": 23, "height": 11, "crop": "center"},
    "width": {"width": 29},
    "height": {"height": 30},
    "by multiplier": {"multiplier": 1.6},
    "longer dimension": {"longer_size": 25},
    "shorter dimension": {"shorter_size": 10},
    "to multiple": {"multiple": 8},
}
for way, below in WAYS.items():
    for method in ["area", "lanczos"]:
        inputs = {"resize_type": f"scale {way}"} | {f"resize_type.{k}": v for k, v in below.items()}
        CASES[f"resize_{way}_{method}"] = [node("ResizeImageMaskNode", input=A, scale_method=method, **inputs)]
pixels = {"resize_type": "scale total pixels", "resize_type.megapixels": 0.01}
CASES["resize_pixels"] = [node("ResizeImageMaskNode", input=M, scale_method="bicubic", **pixels), node("CropMask", mask=["1", 0], x=3, y=5, width=20, height=20)]
match = {"resize_type": "match size", "resize_type.match": B, "resize_type.crop": "disabled"}
CASES["resize_match"] = [node("ResizeImageMaskNode", input=A, scale_method="bicubic", **match)]
by = {"resize_type": "scale by multiplier", "resize_type.multiplier": 0.7}
for method in ["bilinear", "lanczos"]:
    CASES[f"resize_mask_{method}"] = [node("ResizeImageMaskNode", input=M, scale_method=method, **by), node("MaskToImage", mask=["1", 0])]
CASES["max_dimension"] = [node("ImageScaleToMaxDimension", image=A, upscale_method="bilinear", largest_size=31)]
CASES["batch_of_three"] = [node("BatchImagesNode", **{"images.image0": B, "images.image1": A, "images.image2": ["two", 0]})]
for direction in ["right", "down", "left", "up"]:
    for match, gap, color in [(True, 0, "white"), (False, 4, "black"), (False, 2, "red")]:
        name = f"stitch_{direction}_{color}"
        CASES[name] = [node("ImageStitch", image1=A, direction=direction, match_image_size=match, spacing_width=gap, spacing_color=color, image2=B)]
CASES["stitch_batch"] = [node("RepeatImageBatch", image=B, amount=2), node("ImageStitch", image1=A, direction="down", match_image_size=True, spacing_width=0, spacing_color="white", image2=["1", 0])]
for operation in ["multiply", "add", "subtract", "and", "or", "xor"]:
    CASES[f"masks_{operation}"] = [node("MaskComposite", destination=M, source=N, x=3, y=2, operation=operation)]
for mode in ["normal", "multiply", "screen", "overlay", "soft_light", "difference"]:
    CASES[f"blend_{mode}"] = [node("ImageBlend", image1=A, image2=B, blend_factor=0.6, blend_mode=mode)]
for degrees in [90, 180, 270]:
    CASES[f"rotate_{degrees}"] = [node("LatentRotate", samples=X, rotation=f"{degrees} degrees")]
    CASES[f"rotate_image_{degrees}"] = [node("ImageRotate", image=A, rotation=f"{degrees} degrees")]

CASES["join_mask"] = [node("JoinImageWithAlpha", image=A, alpha=N), node("SplitImageWithAlpha", image=["1", 0]), node("InvertMask", mask=["2", 1])]
CASES["join_picture"] = [node("JoinImageWithAlpha", image=A, alpha=N), node("SplitImageWithAlpha", image=["1", 0])]
CASES["split_opaque"] = [node("SplitImageWithAlpha", image=A), node("InvertMask", mask=["1", 1])]
CASES["longer_edge"] = [node("ResizeImagesByLongerEdge", images=A, longer_edge=23)]
for color, method in [("white", "area"), ("black", "lanczos"), ("white", "bicubic")]:
    CASES[f"padded_{method}"] = [node("ResizeAndPadImage", image=["pair", 0], target_width=31, target_height=15, padding_color=color, interpolation=method)]
for of, name in [(X, "x"), (V, "v")]:
    for dim in ["x", "y"] + (["t"] if name == "v" else []):
        CASES[f"cut_{name}_{dim}"] = [node("LatentCut", samples=of, dim=dim, index=2, amount=3)]
        CASES[f"cut_{name}_{dim}_end"] = [node("LatentCut", samples=of, dim=dim, index=-2, amount=30)]
        CASES[f"pieces_{name}_{dim}"] = [node("LatentCutToBatch", samples=of, dim=dim, slice_size=2)]
        CASES[f"concat_{name}_{dim}"] = [node("LatentCut", samples=of, dim=dim, index=0, amount=1), node("LatentConcat", samples1=of, samples2=["1", 0], dim=dim)]
        CASES[f"concat_{name}_{dim}_before"] = [node("LatentCut", samples=of, dim=dim, index=1, amount=1), node("LatentConcat", samples1=of, samples2=["1", 0], dim=f"-{dim}")]
CASES["pieces_x_t"] = [node("LatentCutToBatch", samples=X, dim="t", slice_size=1)]
for of, name in [(X, "x"), (V, "v")]:
    CASES[f"tonemap_{name}"] = [node("LatentOperationTonemapReinhard", multiplier=0.7), node("LatentApplyOperation", samples=of, operation=["1", 0])]
CASES["latent_sharpen"] = [node("LatentOperationSharpen", sharpen_radius=3, sigma=0.8, alpha=0.3), node("LatentApplyOperation", samples=X, operation=["1", 0])]
for method in ["reinhard_lab", "mkl_lab", "histogram"]:
    for source, more in [("per_frame", {}), ("uniform", {}), ("target_frame", {"source_stats.target_index": 1})]:
        strength = 1.0 if source != "uniform" else 0.6
        CASES[f"color_{method}_{source}"] = [node("ColorTransfer", image_target=["pair", 0], image_ref=B, method=method, source_stats=source, strength=strength, **more)]

# What a page brings of a brush: of another size than the picture, and of the same.
CASES["painted"] = [node("Painter", mask="c.png", width=512, height=512, bg_color="#000000", image=A)]
CASES["painted_mask"] = [node("Painter", mask="c.png", width=512, height=512, bg_color="#000000", image=A), node("InvertMask", mask=["1", 1])]
CASES["painted_alike"] = [node("Painter", mask="c.png", width=512, height=512, bg_color="#000000", image=B)]
CASES["painted_nothing"] = [node("Painter", mask="", width=64, height=128, bg_color="#40a0ff"), node("ImageCrop", image=["1", 0], width=3, height=2, x=60, y=100)]


def given():
    """Pictures in bytes, and latents."""
    g = np.random.default_rng(7)
    small = torch.Generator().manual_seed(8)
    return {
        "a": torch.from_numpy(g.integers(0, 256, (14, 17, 3), dtype=np.uint8)),
        "b": torch.from_numpy(g.integers(0, 256, (9, 12, 3), dtype=np.uint8)),
        "c": torch.from_numpy(g.integers(0, 256, (9, 12, 4), dtype=np.uint8)),
        "x": torch.randn((2, 4, 10, 12), generator=small),
        "y": torch.randn((1, 4, 7, 6), generator=small),
        "v": torch.randn((2, 3, 5, 6, 7), generator=small),
    }


def run(graph, name, loaded, known):
    if name in known:
        return known[name]
    import nodes

    kind, inputs = graph[name]["class_type"], graph[name]["inputs"]
    if kind == "LoadImage":
        made = (loaded[name][None].float() / 255.0,)
    elif kind == "LoadLatent":
        made = ({"samples": loaded[name]},)
    else:
        cls = nodes.NODE_CLASS_MAPPINGS[kind]
        ready = {k: run(graph, v[0], loaded, known)[v[1]] if isinstance(v, list) else v for k, v in inputs.items()}
        ready = nested(ready)
        if kind == "ColorTransfer" and not isinstance(ready["source_stats"], dict):
            ready["source_stats"] = {"source_stats": ready["source_stats"]}
        if hasattr(cls, "execute"):
            with torch.no_grad():
                made = tuple(cls.execute(**ready).args)
        else:
            made = getattr(cls(), cls.FUNCTION)(**ready)
    known[name] = made
    return made


def nested(inputs):
    """Inputs that stand below another, as nodes take them: `a.b` is `b` of `a`."""
    out = {}
    for name, value in inputs.items():
        above, _, below = name.partition(".")
        if below:
            found = out.get(above, {})
            found = found if isinstance(found, dict) else {above: found}
            out[above] = found | {below: value}
        else:
            out[name] = value
    return out


async def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    sys.argv = ["main.py", "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    # Some nodes tell pages of what they make. There are none, and no server.
    sys.modules["server"] = types.SimpleNamespace(PromptServer=types.SimpleNamespace(instance=None))
    import nodes

    await nodes.init_extra_nodes(init_custom_nodes=False, init_api_nodes=False)
    loaded, graphs, out = given(), {}, {}
    folder = tempfile.mkdtemp()
    import folder_paths

    folder_paths.set_input_directory(folder)
    folder_paths.set_temp_directory(folder)
    Image.fromarray(loaded["c"].numpy()).save(Path(folder) / "c.png")
    for name, steps in CASES.items():
        graph = FIRST | {str(i + 1): step for i, step in enumerate(steps)}
        last = str(len(steps))
        made = run(graph, last, loaded, {})[0]
        if isinstance(made, dict):
            made = made["samples"].movedim(1, -1)
        graphs[name] = {k: v for k, v in graph.items() if k in needed(graph, last)}
        out[f"out.{name}"] = made.float().contiguous()
    out |= {f"in.{k}": (v if k in "abc" else v.movedim(1, -1)).float().contiguous() for k, v in loaded.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(graph)}" for name, graph in graphs.items()]
    (HERE / "pictures.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    save_file(out, HERE / "pictures.safetensors")


def needed(graph, name):
    links = [v[0] for v in graph[name]["inputs"].values() if isinstance(v, list)]
    return {name}.union(*[needed(graph, link) for link in links])


asyncio.run(main())
