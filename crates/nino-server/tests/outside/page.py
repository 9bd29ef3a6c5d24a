"""nino's own page in a real browser. Not a part of CI:

    python -m venv venv && venv/bin/pip install playwright==1.65.0 numpy==1.26.4
    cargo build --release
    venv/bin/python crates/nino-server/tests/outside/page.py target/release/nino --shots shots

`--chromium` names a browser that is installed; without it, Playwright's own is used. Each part says
what it saw, and the first that is wrong ends the script.
"""

import argparse
import pathlib
import shutil
import time

from playwright.sync_api import expect, sync_playwright
from serving import FILE, FLAGS, ROOT, Serving, hub, in_parts

SLOW = 120_000


def main():
    args = argparse.ArgumentParser()
    args.add_argument("nino")
    args.add_argument("--chromium")
    args.add_argument("--shots", type=pathlib.Path)
    args = args.parse_args()
    if args.shots:
        args.shots.mkdir(parents=True, exist_ok=True)
    env = {"HF_ENDPOINT": hub(), "HF_HUB_OFFLINE": "0"}
    with Serving(args.nino, env=env, models=models) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        faults = watch(page, server.url)

        def shot(name):
            if args.shots:
                page.screenshot(path=args.shots / f"{name}.png")

        page.set_default_timeout(SLOW)
        expect.set_options(timeout=SLOW)
        for part in [makes, previews_and_cancels, enlarges, shows_the_gallery, downloads, keeps_settings, looks_at_pictures,
                     paints, makes_clips, keeps_wide_seeds, makes_several, lists_routes, fits_a_phone]:
            part(page, server.url, shot)
            print(f"{part.__name__.replace('_', ' ')}: seen")
        assert not faults, faults
        browser.close()


def models(folder):
    """A Flux.2 klein and a Wan, both small and in parts, with made-up weights."""
    net = "model.diffusion_model."
    in_parts(folder, "tiny_klein", [("diffusion_models", "klein.safetensors", net), ("vae", "flux2-vae.safetensors", "vae."),
        ("text_encoders", "qwen_3_4b.safetensors", "text_encoders.qwen3_4b.transformer.")])  # fmt: skip
    in_parts(folder, "tiny_wan", [("diffusion_models", "wan.safetensors", net), ("vae", "wan_2.1_vae.safetensors", "vae."),
        ("text_encoders", "umt5_xxl.safetensors", "text_encoders.umt5xxl.transformer.")])  # fmt: skip
    shutil.copy(ROOT / "goldens/text/small/spiece.model", folder / "text_encoders/spiece.model")


def watch(page, url):
    """Errors of scripts, and requests that go anywhere but to the server."""
    faults = []

    def console(message):
        # What the server refuses is told by the browser, too.
        if message.type == "error" and "status of 400" not in message.text:
            faults.append(f"console: {message.text}")

    def request(asked):
        if asked.url.startswith("http") and not asked.url.startswith(url):
            faults.append(f"request: {asked.url}")

    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("console", console)
    page.on("request", request)
    return faults


def fill(page, **values):
    for name, value in values.items():
        page.locator(f"#{name}").fill(str(value))


def made(page):
    """Waits for the picture of the last request, and gives its width and height."""
    expect(page.locator("#shown:not(.working) #picture")).to_be_visible()
    page.wait_for_function("document.getElementById('picture').src.includes('/view?') && document.getElementById('picture').complete")
    return page.evaluate("[picture.naturalWidth, picture.naturalHeight]")


def makes(page, url, shot):
    page.goto(url)
    # The built-in model is the default only where there is no other.
    expect(page.locator("#model")).to_have_value("klein.safetensors")
    page.locator("#model").select_option("nino-emoji")
    expect(page.locator("#needs")).to_contain_text("Needs")
    shot("empty")
    fill(page, prompt="a smiling sun", width=128, height=128, steps=4)
    page.keyboard.press("Control+Enter")
    assert made(page) == [128, 128]
    expect(page.locator("#strip img")).to_have_count(1)
    shot("made")


def previews_and_cancels(page, url, shot):
    fill(page, steps=400)
    page.locator("#make").click()
    expect(page.locator("#shown.working")).to_be_visible()
    expect(page.locator("#progress-text")).to_contain_text("left")
    shot("working")
    page.keyboard.press("Escape")
    expect(page.locator("#cancel")).to_be_disabled()
    fill(page, steps=4)


def enlarges(page, url, shot):
    page.locator("#hires-box summary").click()
    page.locator("#upscaler").select_option("2x-Small.safetensors")
    before = page.locator("#strip img").count()
    page.locator("#make").click()
    expect(page.locator("#strip img")).to_have_count(before + 1)
    assert made(page) == [256, 256]
    page.locator("#upscaler").select_option("")


def shows_the_gallery(page, url, shot):
    page.keyboard.press("Alt+2")
    expect(page.locator("#grid button")).to_have_count(2)
    shot("gallery")
    page.locator("#search").fill("nothing like this")
    expect(page.locator("#grid .nothing")).to_be_visible()
    page.locator("#search").fill("sun")
    expect(page.locator("#grid button")).to_have_count(2)
    page.locator("#compare").click()
    page.locator("#grid button").nth(0).click()
    page.locator("#grid button").nth(1).click()
    expect(page.locator("#slider")).to_be_visible()
    shot("compare")
    page.locator("#viewer .close").click()
    page.locator("#compare").click()
    page.locator("#grid button").nth(0).click()
    expect(page.locator("#view-facts")).to_contain_text("a smiling sun")
    page.locator("#use").click()
    expect(page.locator("#prompt")).to_have_value("a smiling sun")
    expect(page.locator("#random")).not_to_be_checked()


def downloads(page, url, shot):
    page.keyboard.press("Alt+3")
    expect(page.locator("#model-rows")).to_contain_text("2x-Small")
    page.locator("#pull-what").fill("https://example.org/x.safetensors")
    page.locator("#pull button").click()
    expect(page.locator("#pull-problem")).to_be_visible()
    page.locator("#pull-what").fill(f"org/repo/{FILE}")
    page.locator("#pull button").click()
    expect(page.locator("#downloads li.running")).to_be_visible()
    shot("downloading")
    expect(page.locator("#downloads li.done")).to_be_visible()
    expect(page.locator("#pull-problem")).to_be_hidden()
    shot("models")


def keeps_settings(page, url, shot):
    page.keyboard.press("Alt+1")
    fill(page, prompt="a red boat", steps=7)
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.locator("#theme").click()
    page.reload()
    expect(page.locator("#prompt")).to_have_value("a red boat")
    expect(page.locator("#steps")).to_have_value("7")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    shot("other-theme")
    page.keyboard.press("Alt+4")
    expect(page.locator("#about")).to_contain_text("version")


def looks_at_pictures(page, url, shot):
    page.keyboard.press("Alt+1")
    page.locator("#model").select_option("klein.safetensors")
    expect(page.locator("#parts-box")).to_be_visible()
    expect(page.locator("#vae")).to_have_value("flux2-vae.safetensors")
    expect(page.locator("#clip1")).to_have_value("qwen_3_4b.safetensors")
    page.locator("#reference-box summary").click()
    page.locator("#reference-file").set_input_files([ROOT / "docs/sun.png", ROOT / "docs/nino-emoji.png"])
    expect(page.locator("#references img")).to_have_count(2)
    page.locator("#references img").nth(1).click()
    expect(page.locator("#references img")).to_have_count(1)
    fill(page, prompt="the sun on a wall", width=128, height=128, steps=1)
    expect(page.locator("#needs")).to_contain_text("Needs")
    shot("reference")
    page.locator("#make").click()
    assert made(page) == [128, 128]


def paints(page, url, shot):
    """A picture to start from, and a mask painted over it with the mouse."""
    page.locator("#start-box summary").click()
    page.locator("#file").set_input_files(ROOT / "docs/sun.png")
    expect(page.locator("#paint")).to_be_visible()
    page.locator("#paint").scroll_into_view_if_needed()
    box = page.locator("#paint").bounding_box()
    at = lambda x, y: (box["x"] + box["width"] * x, box["y"] + box["height"] * y)
    page.mouse.move(*at(0.3, 0.3))
    page.mouse.down()
    for x in [0.4, 0.5, 0.6, 0.7]:
        page.mouse.move(*at(x, 0.4))
    page.mouse.up()
    shot("brush")
    before = page.locator("#strip img").count()
    with page.expect_request("**/prompt") as asked:
        page.locator("#make").click()
    nodes = [node["class_type"] for node in asked.value.post_data_json["prompt"].values()]
    assert "SetLatentNoiseMask" in nodes and "VAEEncode" in nodes, nodes
    expect(page.locator("#strip img")).to_have_count(before + 1)
    assert made(page) == [128, 128]
    page.locator("#drop-picture").click()
    page.locator("#start-box summary").click()


def keeps_wide_seeds(page, url, shot):
    """A seed that JavaScript's numbers do not hold makes the same picture again."""
    page.locator("#model").select_option("nino-emoji")
    expect(page.locator("#model-about")).to_contain_text("256")
    page.locator("#random").uncheck()
    fill(page, prompt="a star", width=64, height=64, steps=1, seed="18446744073709551557")
    before = page.locator("#strip img").count()
    with page.expect_request("**/prompt") as asked:
        page.locator("#make").click()
    assert asked.value.post_data_json["prompt"]["3"]["inputs"]["seed"] == "18446744073709551557"
    expect(page.locator("#strip img")).to_have_count(before + 1)
    page.locator("#show-settings").click()
    expect(page.locator("#view-facts")).to_contain_text("18446744073709551557")
    page.locator("#seed").evaluate("(seed) => { seed.value = '1'; }")
    page.locator("#use").click()
    expect(page.locator("#seed")).to_have_value("18446744073709551557")
    expect(page.locator("#width")).to_have_value("64")


def makes_several(page, url, shot):
    """Several pictures are jobs with seeds of their own, and are stopped together."""
    before = page.locator("#strip img").count()
    fill(page, count=3, seed="7", steps=1)
    page.locator("#make").click()
    expect(page.locator("#strip img")).to_have_count(before + 3)
    page.locator("#strip img").nth(0).click()
    page.locator("#show-settings").click()
    expect(page.locator("#view-facts dt:text-is('seed') + dd")).to_have_text("9")
    page.locator("#viewer .close").click()
    fill(page, steps=900)
    page.locator("#make").click()
    expect(page.locator("#queue-list li")).to_have_count(3)
    expect(page.locator("#progress-text")).to_contain_text("left")
    shot("queue")
    page.keyboard.press("Escape")
    expect(page.locator("#queue")).to_be_hidden()
    expect(page.locator("#cancel")).to_be_disabled()
    fill(page, steps=4, count=1)


def lists_routes(page, url, shot):
    page.goto(f"{url}openapi")
    expect(page.locator(".route").first).to_be_visible()
    page.locator("#search").fill("txt2img")
    expect(page.locator(".route:visible")).to_have_count(1)
    page.locator(".route:visible summary").click()
    expect(page.locator(".route:visible")).to_contain_text("sampler_name")
    shot("routes")
    page.goto(url)


def makes_clips(page, url, shot):
    page.locator("#model").select_option("wan.safetensors")
    expect(page.locator("#video-box")).to_be_visible()
    expect(page.locator("#hires-box")).to_be_hidden()
    fill(page, prompt="a boat", width=64, height=48, steps=1, frames=5, fps=8)
    before = page.locator("#strip img").count()
    page.locator("#make").click()
    expect(page.locator("#strip img")).to_have_count(before + 1)
    assert made(page) == [64, 48]
    assert ".webp" in page.locator("#picture").get_attribute("src")
    shot("clip")
    page.locator("#show-settings").click()
    expect(page.locator("#view-facts")).to_contain_text("a boat")
    page.locator("#viewer .close").click()
    page.locator("#model").select_option("nino-emoji")


def fits_a_phone(page, url, shot):
    page.set_viewport_size({"width": 390, "height": 844})
    for view in ["create", "gallery", "models", "settings"]:
        page.goto(f"{url}#{view}")
        expect(page.locator(f"#{view}")).to_be_visible()
        time.sleep(0.3)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"{view} is {wide} wide"
        shot(f"phone-{view}")


if __name__ == "__main__":
    main()
