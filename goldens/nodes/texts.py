"""What ComfyUI's nodes of texts make of some.

    COMFYUI=PATH/TO/ComfyUI python goldens/nodes/texts.py

Written with ComfyUI 0.30.0 and Python 3.11, whose `re` and `str` the nodes use. `texts.json` has a
class, its inputs and what it gives, a line each.
"""

import asyncio
import json
import os
import sys
import types
from pathlib import Path

HERE = Path(__file__).parent
PROMPT = "Title\nA red fox --no blur\n---\nThe end\n"
ROWS = "alpha\nbeta\ngamma\n"
SETTINGS = json.dumps({"Default": {"num_steps": 20, "mu": 0.0, "std": 1.75, "id": "V4's \"20\"", "b": [1, None, True]}, "n": 1e-7, "big": 1e22, "x": None, "t": "a\nb", "z": -3})
FLAGS = {"case_insensitive": False, "multiline": False, "dotall": False}

SEARCHES = [
    # Of ComfyUI's templates.
    (PROMPT, r"(?sm)^(.*?)^---$(.*)", {}),
    (PROMPT, r"(?s)(?<=\n---\n)([\s\S]*)$", {}),
    ("a dog runs --no rain, snow", r"^(.+?)(?=\s+--no)", {}),
    ("a dog runs --no rain, snow", r"(?<=--no\s)(.+)$", {}),
    (ROWS, r"^(?:[^\n]*\n){1}([^\n]*)(?:\n|$)", {}),
    (ROWS, r"(?:[^\n]*\n){2}([^\n]+)", {}),
    ("Wear {Outfit} and {outfit}.", "{outfit}", {"case_insensitive": True}),
    # Where Python and other matchers part.
    ("end\n", r"d$", {}),
    ("end\n", r"d\Z", {}),
    ("one\ntwo\n", r"^\w+$", {"multiline": True}),
    ("one\ntwo\n", r"^\w+$", {}),
    ("a[b]c&&d--e", r"[[&-]+", {}),
    ("x]y", r"[]x]+", {}),
    ("x^y-z", r"[\^\-z]+", {}),
    ("a{,2}b", r"a{,2}", {}),
    ("aaa", r"a{,2}", {}),
    ("a{x}", r"a{x}", {}),
    ("<b>", r"\<b\>", {}),
    ("2024-06-01", r"(?P<year>\d{4})-(?P<month>\d\d)", {}),
    ("abab", r"(?P<x>ab)(?P=x)", {}),
    ("aa1 bb2", r"(\w)\1(\d)?", {}),
    ("a.b.c", r"a.b", {"dotall": True}),
    ("A\nB", r"a.b", {"dotall": True, "case_insensitive": True}),
    ("A\nB", r"a.b", {"case_insensitive": True}),
    ("Straße ÄÖ", r"\w+", {}),
    ("tab\x1cspace", r"\s", {}),
    ("ab12", r"(?x) [a-z]+  # letters\n \d", {}),
    ("Ab", r"(?i:a)b", {}),
    ("AB", r"(?i:a)b", {}),
    ("a1", r"(a)?(b)?1", {}),
    ("(a) b", r"(\()?a(?(1)\)|b)", {}),
    ("foobar", r"(?#remark)foo(?!baz)", {}),
    ("A\u00e9B", r"\x41\u00e9\102", {}),
    ("x", r"(", {}),
    ("x", r"x(?i)", {}),
    ("x", r"\q", {}),
    ("x", r"[z-a]", {}),
    ("", r"", {}),
    ("aXbX", r"x*", {"case_insensitive": True}),
    ("a", r"|a", {}),
    ("aaa", r"a*?", {}),
]


def cases():
    for text in ["Hello World", "ß über ΑΣ", "it's a DOG2dog", "  \t x \x1f\n"]:
        for mode in ["UPPERCASE", "lowercase", "Capitalize", "Title Case"]:
            yield "CaseConverter", {"string": text, "mode": mode}
        for mode in ["Both", "Left", "Right"]:
            yield "StringTrim", {"string": text, "mode": mode}
        yield "StringLength", {"string": text}
    for start, end in [(0, 3), (1, -1), (-3, 100), (4, 2), (-100, 2), (0, 0)]:
        yield "StringSubstring", {"string": "añb✓cde", "start": start, "end": end}
    yield "StringConcatenate", {"string_a": "a", "string_b": "b", "delimiter": ", "}
    for find, replace in [("o", "0"), ("", "-"), ("{x}", "y"), ("zz", "")]:
        yield "StringReplace", {"string": "foo {x} zz", "find": find, "replace": replace}
    for a, b in [("Fox", "fo"), ("fox", "OX"), ("fox", "FOX"), ("fox", "")]:
        for case_sensitive in [True, False]:
            yield "StringContains", {"string": a, "substring": b, "case_sensitive": case_sensitive}
            for mode in ["Starts With", "Ends With", "Equal"]:
                yield "StringCompare", {"string_a": a, "string_b": b, "mode": mode, "case_sensitive": case_sensitive}
    for string, pattern, flags in SEARCHES:
        search = {"string": string, "regex_pattern": pattern} | FLAGS | flags
        yield "RegexMatch", search
        for mode in ["First Match", "All Matches", "First Group", "All Groups"]:
            yield "RegexExtract", search | {"mode": mode, "group_index": 1}
        yield "RegexExtract", search | {"mode": "First Group", "group_index": 0}
    replaced = [
        ("```json\n{}\n```", "^```(?:json)?\\s*\\n?", "", 1),
        ("{}\n```\n", "\\n?```\\s*$", "", 1),
        ("abxd", "x*", "-", 0),
        ("John Smith", r"(?P<a>\w+) (\w+)", r"\2, \g<a>\n\\\&", 0),
        ("aaaa", "a", "b", 3),
        ("a1", r"(a)|(1)", r"[\1\2\g<0>]", 0),
    ]
    for string, pattern, replace, count in replaced:
        yield "RegexReplace", {"string": string, "regex_pattern": pattern, "replace": replace, "count": count} | FLAGS
    for key in ["Default", "n", "big", "x", "t", "z", "none"]:
        yield "JsonExtractString", {"json_string": SETTINGS, "key": key}
    yield "JsonExtractString", {"json_string": "no json", "key": "a"}
    yield "JsonExtractString", {"json_string": "[1]", "key": "a"}
    yield "CustomCombo", {"choice": "low", "index": 2}


async def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    sys.argv = ["main.py", "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    # Some nodes tell pages of what they make. There are none, and no server.
    sys.modules["server"] = types.SimpleNamespace(PromptServer=types.SimpleNamespace(instance=None))
    import nodes

    await nodes.init_extra_nodes(init_custom_nodes=False, init_api_nodes=False)
    lines = []
    for kind, inputs in cases():
        try:
            made = nodes.NODE_CLASS_MAPPINGS[kind].execute(**inputs).args
        except TypeError as error:  # a group of all matches that took no part
            print(f"left out: {kind} {inputs}: {error}")
            continue
        made = ["" if value is None else str(value) for value in made]
        lines.append(json.dumps([kind, inputs, made]))
    (HERE / "texts.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


asyncio.run(main())
