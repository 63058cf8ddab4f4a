"""Table of the public names of `driftbayes`, each with the first line of its docstring."""

__all__ = ["PublicNames"]

import inspect
import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import driftbayes
from docsite.names import assignment_of


class PublicNames(SphinxDirective):
    """Directive for the public names of the package; `references` adds the links."""

    def run(self) -> list[nodes.Node]:
        """Return one definition list."""
        names = sorted(driftbayes.__all__, key=str.lower)
        return [nodes.definition_list("", *map(self._item, names))]

    def _item(self, name: str) -> nodes.definition_list_item:
        summary = _summary(name, getattr(driftbayes, name))
        # An equation id is code, as in converted docstrings.
        inline, _ = self.parse_inline(re.sub(r"(\[eq:[\w-]+\])", r"`\1`", summary))
        term = nodes.term("", "", nodes.literal("", f"driftbayes.{name}"))
        text = nodes.definition("", nodes.paragraph("", "", *inline))
        return nodes.definition_list_item("", term, text)


def _summary(name: str, value: object) -> str:
    """Return the first paragraph of the docstring, or the comment above a constant."""
    if isinstance(value, str):
        return "The version, as text."
    if isinstance(value, dict):
        return " ".join(assignment_of(f"driftbayes.models.{name}").comment)
    first, *_ = (inspect.getdoc(value) or "").split("\n\n")
    return " ".join(first.split())
