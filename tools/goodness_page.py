"""Insert the results of `driftbayes reproduce goodness -o DIR` into the documentation.

Usage: python tools/goodness_page.py DIR
"""

import json
import re
import shutil
import sys
from pathlib import Path

from driftbayes.reproduce.goodness import goodness_table

ROOT = Path(__file__).parents[1]


def main(directory: Path) -> None:
    """Copy numbers and figure, and replace the tables of the page."""
    figures = ROOT / "docs/figures"
    shutil.copy(directory / "goodness.json", figures / "goodness-power.json")
    shutil.copy(directory / "goodness.png", figures / "goodness-power.png")
    content = json.loads((figures / "goodness-power.json").read_text(encoding="utf-8"))
    page = ROOT / "docs/goodness-of-fit.md"
    begin, end = "<!-- goodness: begin -->", "<!-- goodness: end -->"
    text = f"{begin}\n{goodness_table(content)}\n{end}"
    old = page.read_text(encoding="utf-8")
    page.write_text(re.sub(f"{begin}.*{end}", lambda _: text, old, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
