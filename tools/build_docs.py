"""Build the documentation site: `python tools/build_docs.py`, or `make docs`.

There is no conf.py: `pyproject.toml` is the only configuration file, and Sphinx is configured
here. Every warning is an error, and every link within the site is checked. `--external` instead
checks links to other sites, which needs a network.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

# Autodoc only imports modules, and must not search for devices.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from docsite.links import broken_links, loaded_from_elsewhere
from driftbayes import __version__
from driftbayes._storage.atomic import atomic_folder
from driftbayes.errors import DriftbayesError

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
STATIC = ROOT / "tools" / "docsite" / "static"

SETTINGS: dict[str, Any] = {
    "project": "driftbayes",
    "author": "The driftbayes developers",
    "copyright": "the driftbayes developers, MIT licence",
    "version": __version__,
    "release": __version__,
    "extensions": ["myst_parser", "sphinx.ext.autodoc", "docsite"],
    "source_suffix": {".md": "markdown"},
    # READMEs of folders are for readers of the repository.
    "exclude_patterns": ["**/README.md", "README.md"],
    "nitpicky": True,
    # Signatures name other packages, whose documentation is not included.
    "nitpick_ignore_regex": [
        ("py:.*", r"(?!driftbayes\b).*"),
        ("py:.*", r".*\b_\w.*"),  # private
    ],
    # Two hyphens become a dash; quotation marks are unchanged.
    "smartquotes_action": "D",
    "highlight_language": "text",
    "myst_enable_extensions": ["dollarmath", "colon_fence"],
    "myst_heading_anchors": 4,
    "autodoc_default_options": {"members": True},
    "autodoc_member_order": "bysource",
    "autodoc_typehints_format": "short",
    "toc_object_entries_show_parents": "hide",
    "python_use_unqualified_type_names": True,
    "python_maximum_signature_line_length": 80,
    "html_theme": "furo",
    "html_title": "driftbayes",
    "html_static_path": [str(STATIC)],
    "html_css_files": ["site.css"],
    "html_math_renderer": "mathml",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_sphinx": False,
    # Otherwise the search page fetches every result, which browsers do not allow for files.
    "html_show_search_summary": False,
    "linkcheck_timeout": 20,
}


def main(arguments: list[str] | None = None) -> int:
    """Build into the requested folder, which is replaced only by a site without errors."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="folder to write")
    parser.add_argument("--source", type=Path, default=DOCS, help="folder of the pages")
    parser.add_argument("--external", action="store_true", help="check addresses outside the site")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        if options.external:
            doctrees = Path(scratch) / "doctrees"
            return sphinx("linkcheck", options.source, Path(scratch) / "out", doctrees)
        try:
            with atomic_folder(options.out, may_replace=is_site) as folder:
                build(options.source, folder, Path(scratch))
        except DriftbayesError as error:
            print(f"build_docs: {error}", file=sys.stderr)
            return 2
    print(f"the site begins at {options.out / 'index.html'}")
    return 0


def build(source: Path, folder: Path, scratch: Path) -> None:
    """Build into a new folder; raise an error if the site has a fault."""
    if sphinx("html", source, folder, scratch):
        msg = "the site was not written: correct what Sphinx warned of above"
        raise DriftbayesError(msg)
    faults = [f"{line}: fetched from the network" for line in loaded_from_elsewhere(folder)]
    faults += broken_links(folder, source.parent)
    if faults:
        msg = "the site was not written: correct " + "; ".join(faults)
        raise DriftbayesError(msg)


def sphinx(builder: str, source: Path, folder: Path, doctrees: Path) -> int:
    """Run a Sphinx builder; return nonzero after any warning."""
    # A second run in this process would warn of names that the first registered with docutils.
    with docutils_namespace():
        app = Sphinx(
            srcdir=source,
            confdir=None,
            outdir=folder,
            doctreedir=doctrees,
            buildername=builder,
            confoverrides=SETTINGS,
            status=None,
            warning=sys.stderr,
            warningiserror=True,
            freshenv=True,
        )
        app.build()
        return int(app.statuscode)


def is_site(folder: Path) -> bool:
    """Whether a folder is a site that this tool wrote."""
    return (folder / "objects.inv").exists()


if __name__ == "__main__":
    sys.exit(main())
