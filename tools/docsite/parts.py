"""Page of all public modules that no other page of the reference describes."""

__all__ = ["OtherModules"]

import re
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from docsite.names import public_modules


class OtherModules(SphinxDirective):
    """Directive that describes the remaining modules, so that none is missing."""

    def run(self) -> list[nodes.Node]:
        """Return the output of autodoc."""
        pages = Path(self.env.doc2path(self.env.docname)).parent.glob("*.md")
        named = {
            module
            for page in pages
            for module in re.findall(r"automodule:: (\S+)", page.read_text(encoding="utf-8"))
        }
        # The package itself is the table of contents.
        others = [name for name in public_modules()[1:] if name not in named]
        listed = [name for name in others if getattr(import_module(name), "__all__", [])]
        text = "\n\n".join(f".. rubric:: ``{name}``\n\n.. automodule:: {name}" for name in listed)
        return self.parse_text_to_nodes(text)
