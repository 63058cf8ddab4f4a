"""Links of included files, and a check of all links of the site."""

__all__ = ["broken_links", "from_the_root", "loaded_from_elsewhere"]

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from sphinx.application import Sphinx

# Files of the root directory that are pages of the site, and the pages that include them.
PAGES = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}
_LOADING = {"link", "script", "img", "source", "iframe", "video", "audio", "object", "embed"}


def from_the_root(app: Sphinx, path: Path, page: str, text: list[str]) -> None:
    """Adapt links of a file of the root directory that a page of docs/ includes."""
    text[0] = text[0].replace("](docs/", "](")
    for file, own in PAGES.items():
        text[0] = text[0].replace(f"]({file}", f"]({own}")


class _Page(HTMLParser):
    """Anchors, links and loaded resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        targets = [values[name] for name in ("href", "src", "data") if name in values]
        self.links += targets
        # A canonical address or a licence is not loaded.
        if tag in _LOADING and values.get("rel") not in ("canonical", "license"):
            self.loads += targets


@cache
def _pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def broken_links(site: Path, root: Path) -> list[str]:
    """Return broken links within the site, and from Markdown files of the root into docs/.

    Args:
        site: Folder of the built site.
        root: Root of the repository.
    """
    site = site.resolve()
    pages = _pages(site)
    found = []
    for path, page in pages.items():
        for link in page.links:
            if reason := _broken(path, link, pages):
                found.append(f"{path.relative_to(site)}: {link}: {reason}")
    for file in ("README.md", *PAGES):
        if not (root / file).exists():
            continue
        for link in _markdown_links((root / file).read_text(encoding="utf-8")):
            if urlsplit(link).scheme:
                continue
            if not (root / unquote(urlsplit(link).path)).exists():
                found.append(f"{file}: {link}: no such file")
            elif match := re.fullmatch(r"docs/(.+)\.md(#.*)?", link):
                html = f"{match[1]}.html{match[2] or ''}"
                if reason := _broken(site / "index.html", html, pages):
                    found.append(f"{file}: {link}: {reason}")
    return found


def _broken(path: Path, link: str, pages: dict[Path, _Page]) -> str:
    """Return the reason why a link is broken; empty if it is not."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "no such anchor"
    return ""


def _markdown_links(text: str) -> Iterator[str]:
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if target:
                yield str(target)


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Return resources that a page or style sheet would fetch from the network."""
    found = []
    for path, page in _pages(site).items():
        for link in page.loads:
            if urlsplit(link).netloc:
                found.append(f"{path.relative_to(site)}: {link}")
    for path in site.rglob("*.css"):
        for link in re.findall(
            r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", path.read_text()
        ):
            found.append(f"{path.relative_to(site)}: {link}")
    return found
