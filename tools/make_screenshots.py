"""Take screenshots of the pages for the documentation.

Run as

    python tools/make_screenshots.py docs/figures

It needs chromium. With --every, it takes the page and its report at three widths, in light and
dark, for inspection.
"""

import argparse
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import jax

WIDTHS = (390, 800, 1280)


def main(target: Path, *, every: bool) -> None:
    """Write the screenshots.

    Args:
        target: Output directory.
        every: Whether to take all widths in light and dark.
    """
    from playwright.sync_api import sync_playwright

    from driftbayes.explore.api import Explorer
    from driftbayes.explore.server import Server

    server = Server(Explorer())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
            args=["--no-sandbox"],
        )
        page = _explored(browser, server.url, 1280, "light")
        page.screenshot(path=target / "explore.png", clip=_box(1280, 1560), full_page=True)
        for width in WIDTHS if every else ():
            for scheme in ("light", "dark"):
                page = _explored(browser, server.url, width, scheme)
                page.screenshot(path=target / f"explore-{width}-{scheme}.png", full_page=True)
                report = _report(page)
                report.screenshot(path=target / f"report-{width}-{scheme}.png", full_page=True)
        browser.close()
    server.shutdown()
    server.server_close()
    server.explorer.close()


def _explored(browser: Any, url: str, width: int, scheme: str) -> Any:
    """Return the page with a simulation compared and scanned."""
    from playwright.sync_api import expect

    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(120_000)
    page.goto(url)
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator("#verdict")).to_contain_text("favoured", timeout=120_000)
    page.locator("#tau").fill("3")
    expect(page.locator("#verdict")).to_contain_text("tau = 4 ", timeout=120_000)
    page.locator("#scan-start").click()
    expect(page.locator("#scan-state")).to_contain_text("done", timeout=120_000)
    page.evaluate("scrollTo(0, 0)")
    return page


def _report(page: Any) -> Any:
    """Open the report of the scan on the page."""
    with page.expect_download() as waiting:
        page.locator("#get-report").click()
    other = page.context.new_page()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        waiting.value.save_as(file)
        other.goto(file.as_uri())
    return other


def _box(width: int, height: int) -> dict[str, int]:
    return {"x": 0, "y": 0, "width": width, "height": height}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--every", action="store_true", help="all widths, in light and dark")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    main(given.target, every=given.every)
