"""Which nodes of ComfyUI's own templates a nino server does not have. Not a part of CI:

    python -m venv venv
    venv/bin/pip install comfyui-workflow-templates-json==0.1.27
    cargo build --release
    venv/bin/python crates/nino-server/tests/outside/templates.py target/release/nino

Counted are the templates whose names tell of a model or a task that nino has, but those of paid
services (`api_`). Nodes inside subgraphs count; nodes that are muted or bypassed do not, and neither
do those that only the page knows.
"""

import collections
import json
import pathlib
import re
import sys
import urllib.request

import comfyui_workflow_templates_json
from serving import Serving

KINDS = (
    "^default|get_started|sdxl|flux|z_image|wan|qwen_?image|chroma|krea2|anima|lora|inpaint|outpaint|control|upscale|lotus"
    "|vace|^basic_|image_stitch"
)
ON_THE_PAGE = {"PrimitiveNode", "Reroute", "Note", "MarkdownNote"}
MUTED, BYPASSED = 2, 4


def classes(graph, subgraphs):
    """The classes of a graph's nodes, and of the subgraphs it uses."""
    found = set()
    for node in graph.get("nodes", []):
        if node.get("mode", 0) in (MUTED, BYPASSED):
            continue
        kind = node["type"]
        if kind in subgraphs:
            found |= classes(subgraphs[kind], subgraphs)
        elif kind not in ON_THE_PAGE:
            found.add(kind)
    return found


def templates():
    folder = pathlib.Path(comfyui_workflow_templates_json.__file__).parent / "templates"
    for file in sorted(folder.glob("*.json")):
        is_ours = re.search(KINDS, file.stem, re.IGNORECASE)
        if not is_ours or file.stem.startswith(("api_", "index")):
            continue
        graph = json.loads(file.read_text())
        subgraphs = {sub["id"]: sub for sub in graph.get("definitions", {}).get("subgraphs", [])}
        yield file.stem, classes(graph, subgraphs)


def main():
    with Serving(sys.argv[1]) as serving:
        known = set(json.load(urllib.request.urlopen(f"{serving.url}object_info")))
    needed, whole, count = collections.defaultdict(list), 0, 0
    for name, used in templates():
        missing = sorted(used - known)
        count += 1
        whole += not missing
        if missing:
            print(f"{name}: {', '.join(missing)}")
        for kind in missing:
            needed[kind].append(name)
    print(f"\n{len(known)} classes; {whole} of {count} templates have no unknown node")
    for kind, names in sorted(needed.items(), key=lambda item: (-len(item[1]), item[0])):
        print(f"{len(names):3} {kind}")


if __name__ == "__main__":
    main()
