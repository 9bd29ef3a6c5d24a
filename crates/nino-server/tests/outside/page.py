"""nino's own page in a real browser. Not a part of CI:

    python -m venv venv && venv/bin/pip install playwright==1.65.0
    cargo build --release
    venv/bin/python crates/nino-server/tests/outside/page.py target/release/nino --shots shots

`--chromium` names a browser that is installed; without it, Playwright's own is used. Each part says
what it saw, and the first that is wrong ends the script.
"""

import argparse
import pathlib
import time

from playwright.sync_api import expect, sync_playwright
from serving import FILE, Serving, hub

SLOW = 120_000


def main():
    args = argparse.ArgumentParser()
    args.add_argument("nino")
    args.add_argument("--chromium")
    args.add_argument("--shots", type=pathlib.Path)
    args = args.parse_args()
    if args.shots:
        args.shots.mkdir(parents=True, exist_ok=True)
    with Serving(args.nino, env={"HF_ENDPOINT": hub(), "HF_HUB_OFFLINE": "0"}) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        faults = watch(page, server.url)

        def shot(name):
            if args.shots:
                page.screenshot(path=args.shots / f"{name}.png")

        page.set_default_timeout(SLOW)
        expect.set_options(timeout=SLOW)
        for part in [makes, previews_and_cancels, enlarges, shows_the_gallery, downloads, keeps_settings, fits_a_phone]:
            part(page, server.url, shot)
            print(f"{part.__name__.replace('_', ' ')}: seen")
        assert not faults, faults
        browser.close()


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
    expect(page.locator("#model")).to_have_value("nino-emoji")
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
    expect(page.locator("#progress-text")).to_contain_text("to go")
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
