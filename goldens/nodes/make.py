"""What ComfyUI's nodes take and give: names, order, types, defaults and limits.

Written with ComfyUI 0.30.0 and the packages of its requirements.txt. COMFYUI names its folder.
All core nodes are written, so that a class that nino learns later is checked at once. Lists of
files are left out, and so is every text for people.
"""

import asyncio
import json
import os
import sys
import types
from pathlib import Path

HERE = Path(__file__).parent
# What is kept of an input's settings.
KEPT = ["default", "min", "max", "step", "round", "multiline", "control_after_generate"]


def info(cls):
    """The entry of /object_info, as far as it is kept."""
    given = None
    if hasattr(cls, "GET_NODE_INFO_V1"):
        given = cls.GET_NODE_INFO_V1()
        inputs, outputs = given["input"], given["output"]
        names = given["output_name"]
    else:
        inputs, outputs = cls.INPUT_TYPES(), cls.RETURN_TYPES
        names = getattr(cls, "RETURN_NAMES", outputs)
    kept = {}
    for need in ["required", "optional"]:
        kept[need] = [entry(name, given) for name, given in inputs.get(need, {}).items()]
    return {**kept, "output": list(outputs), "output_name": list(names), **about(cls, given)}


def about(cls, given):
    """Where a page lists it, and what it warns of."""
    if given:
        found = {key: given.get(key) for key in ["category", "deprecated", "experimental", "output_node"]}
    else:
        names = {"category": "CATEGORY", "deprecated": "DEPRECATED", "experimental": "EXPERIMENTAL", "output_node": "OUTPUT_NODE"}
        found = {key: getattr(cls, name, None) for key, name in names.items()}
    return {key: value for key, value in found.items() if value}


def entry(name, given):
    kind, settings = given[0], given[1] if len(given) > 1 else {}
    settings = settings if isinstance(settings, dict) else {}
    if kind == "COMBO":
        kind = settings.get("options", [])
    if isinstance(kind, (list, tuple)):
        # Names of files are whatever lies in a folder.
        kind = [str(option) for option in kind] if not name.endswith("_name") else []
    kept = {key: settings[key] for key in KEPT if key in settings}
    return [name, kind, kept]


async def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    sys.argv = ["main.py", "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    # Some nodes tell pages of what they make. There are none, and no server.
    sys.modules["server"] = types.SimpleNamespace(PromptServer=types.SimpleNamespace(instance=None))
    import nodes

    await nodes.init_extra_nodes(init_custom_nodes=False, init_api_nodes=False)
    found = {}
    for name, cls in sorted(nodes.NODE_CLASS_MAPPINGS.items()):
        try:
            found[name] = json.loads(json.dumps(info(cls)))
        except (TypeError, ValueError) as error:
            print(f"left out: {name}: {error}")
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found]
    (HERE / "comfyui.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


asyncio.run(main())
