"""Size and loading time of a report of 100 sampling times and six models."""

__all__ = ["report_page"]

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from driftbayes.comparison import make_hypotheses, scan_hypotheses
from driftbayes.data._sampling import Cut
from driftbayes.data._trajectories import Trajectories
from driftbayes.report import write_report
from driftbayes.testing import reference

_MODELS = (
    "brownian",
    "langevin",
    "fractional",
    "confined_brownian",
    "brownian+mean",
    "langevin+mean",
)


def report_page(n_taus: int = 100) -> dict[str, Any]:
    """Scan, write the report, open it in Chromium and move the slider; return times and sizes.

    Args:
        n_taus: Number of sampling times.
    """
    rng = np.random.default_rng(0)
    dx = reference.simulate_langevin(rng, 20, 2000, 2, 0.1, 1.0, 1.0)
    tracks = Trajectories.from_arrays(
        np.cumsum(dx, axis=1), dt=0.1, length_unit="km", time_unit="d"
    )
    hypotheses = make_hypotheses(_MODELS, tracks).hypotheses
    taus = 0.1 * np.unique(np.geomspace(1, 400, 2 * n_taus).round())[:n_taus]
    started = time.perf_counter()
    dataset = scan_hypotheses(tracks, hypotheses, taus, cut=Cut(4, "all")).to_dataset()
    scanned = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        page, *_ = write_report(dataset, Path(folder) / "report.html")
        written = time.perf_counter()
        return {
            "n_taus": dataset.sizes["tau"],
            "n_models": dataset.sizes["model"],
            "scan_seconds": scanned - started,
            "write_seconds": written - scanned,
            "megabytes": page.stat().st_size / 1e6,
            **_opened(page),
        }


def _opened(page: Path) -> dict[str, float]:
    """Return seconds to open and draw the page, and to move the slider; medians of five."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return {}
    from playwright.sync_api import sync_playwright

    opening, moving = [], []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(5):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            started = time.perf_counter()
            tab.goto(page.as_uri())
            # After two frames it is painted.
            tab.evaluate("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")
            opening.append(time.perf_counter() - started)
            started = time.perf_counter()
            tab.locator("#tau").fill("7")
            tab.evaluate("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")
            moving.append(time.perf_counter() - started)
            tab.close()
        browser.close()
    return {"open_seconds": float(np.median(opening)), "slider_seconds": float(np.median(moving))}


if __name__ == "__main__":
    import json

    import jax

    jax.config.update("jax_enable_x64", True)
    print(json.dumps(report_page(), indent=2))
