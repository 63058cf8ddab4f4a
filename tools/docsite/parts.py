"""Public modules that no page of the reference names: all of them, on one page."""

__all__ = ["OtherModules"]

import re
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from docsite.names import public_modules


class OtherModules(SphinxDirective):
    """Describes what is left, so that a module that is new is never missing."""

    def run(self) -> list[nodes.Node]:
        """What autodoc makes of them."""
        pages = Path(self.env.doc2path(self.env.docname)).parent.glob("*.md")
        named = {
            module
            for page in pages
            for module in re.findall(r"automodule:: (\S+)", page.read_text(encoding="utf-8"))
        }
        # That of the package is the table of contents itself.
        others = [name for name in public_modules()[1:] if name not in named]
        listed = [name for name in others if getattr(import_module(name), "__all__", [])]
        text = "\n\n".join(f".. rubric:: ``{name}``\n\n.. automodule:: {name}" for name in listed)
        return self.parse_text_to_nodes(text)
