"""ComfyUI's side: the node pack. ``custom_nodes/ninodes/__init__.py`` imports this module:

    from ninodes.comfyui import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

``python -m ninodes.comfyui COMFYUI`` writes that file into a ComfyUI.

Nodes take ComfyUI's own MODEL, CLIP, VAE, CONDITIONING and LATENT, so a graph may mix them with
stock nodes. What the engine does not know goes to ComfyUI's own function, and the log says why.
"""

from . import custom, loaders, monitors, sampling, vae

_ALL = {**vae.NODES, **sampling.NODES, **custom.NODES, **loaders.NODES, **monitors.NODES}

#: Names under which old workflows ask for a node.
_ALIASES = {
    "ROCMOptimizedVAEDecodeV2": "ROCMOptimizedVAEDecode",
    "ROCMOptimizedVAEDecodeV2Phase2": "ROCMOptimizedVAEDecode",
    "ROCMOptimizedVAEDecodeV2Phase3": "ROCMOptimizedVAEDecode",
    "ROCMOptimizedUNetLoader": "ROCmDiffusionLoader",
}

NODE_CLASS_MAPPINGS = {**_ALL, **{old: _ALL[new] for old, new in _ALIASES.items()}}
NODE_DISPLAY_NAME_MAPPINGS = {
    **{name: node.TITLE for name, node in _ALL.items()},
    **{old: f"{_ALL[new].TITLE} ({old})" for old, new in _ALIASES.items()},
}
