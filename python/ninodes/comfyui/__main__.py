"""Writes the file that makes ComfyUI load the nodes: ``python -m ninodes.comfyui COMFYUI``."""

import os
import sys

LOADER = '''"""Nodes that run on the engine of nino. Written by python -m ninodes.comfyui."""

from ninodes.comfyui import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
'''


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not os.path.isdir(os.path.join(arguments[0], "custom_nodes")):
        print("usage: python -m ninodes.comfyui FOLDER, a ComfyUI with custom_nodes in it")
        return 2
    folder = os.path.join(arguments[0], "custom_nodes", "ninodes")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "__init__.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(LOADER)
    print(f"wrote {path}; restart ComfyUI to load the nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
