"""Automatic links: from code to its description, of equation ids, commands and annotations.

Code in a text that is the name of an object becomes a link to it. A page therefore needs no
special syntax: `driftbayes.priors.scaling_priors` in backticks, in a page or in a docstring,
is enough, and is also readable without the site.
"""

__all__ = ["Links"]

import re
from functools import cached_property

from docutils import nodes
from sphinx.addnodes import desc, desc_signature, pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

from docsite.commands import anchor_of, page_of, parsers
from docsite.names import Entry, Names, is_type_variable

_LOG = logging.getLogger(__name__)
EQUATIONS = "equations"
_EQUATION = re.compile(r"\[eq:([\w-]+)\]")
_NAME = re.compile(r"([A-Za-z_][\w.]*\w)(\(.*\))?", re.DOTALL)
# Plain words like `scan` are often commands, options or columns, not functions.
_TELLING = re.compile(r"driftbayes\.|.*[a-z]_[a-z]|.*[a-z]\.[a-z_]|[A-Z][a-z]+", re.DOTALL)


_NOT_LINKED = nodes.reference | nodes.title | nodes.rubric | desc_signature


class Links:
    """Links of one build.

    Args:
        app: The build.
    """

    def __init__(self, app: Sphinx) -> None:
        self.app = app
        self.equations: set[str] = set()
        app.connect("doctree-read", self.mark_equations)
        app.connect("missing-reference", self.resolve_annotation)
        app.connect("doctree-resolved", self.link_code)

    @cached_property
    def names(self) -> Names:
        """Index of the reference; used after all pages have been read."""
        objects = self.app.env.domains.python_domain.objects
        return Names(Entry(name, entry.docname, entry.node_id) for name, entry in objects.items())

    def mark_equations(self, app: Sphinx, doctree: nodes.document) -> None:
        """Add an anchor for citations to each equation id of the table."""
        if app.env.docname != EQUATIONS:
            return
        for row in doctree.findall(nodes.row):
            for literal in row[0].findall(nodes.literal):
                if match := _EQUATION.fullmatch(literal.astext()):
                    self.equations.add(match[1])
                    literal["ids"].append(f"eq-{match[1]}")

    def resolve_annotation(
        self, app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
    ) -> nodes.Node | None:
        """Resolve names in signatures, which give the definition, not the description."""
        if node.get("refdomain") != "py":
            return None
        if is_type_variable(node["reftarget"]):
            return content
        entry = self.names.find(node["reftarget"], module=node.get("py:module") or "")
        return entry and self.link(node["refdoc"], entry, content)

    def link_code(self, app: Sphinx, doctree: nodes.document, page: str) -> None:
        """Turn code that names an object into links."""
        for literal in list(doctree.findall(nodes.literal)):
            if isinstance(literal.parent, _NOT_LINKED):
                continue
            if entry := self.target(literal):
                literal.replace_self(self.link(page, entry, literal))

    def target(self, literal: nodes.literal) -> Entry | None:
        """Return the target of a piece of code."""
        text = literal.astext()
        if match := _EQUATION.fullmatch(text):
            if match[1] not in self.equations:
                _LOG.warning("no equation %s in equations.md", text, location=literal)
            return None if literal["ids"] else Entry(text, EQUATIONS, f"eq-{match[1]}")
        if text.startswith("driftbayes "):
            words = _command_words(text)
            return Entry(text, page_of(words), anchor_of(words)) if words[1:] else None
        match = _NAME.fullmatch(text)
        module, owner = _context(literal)
        if match is None:
            return None
        is_telling = _TELLING.match(match[1]) is not None
        entry = self.names.find(match[1], module=module, owner=owner, anywhere=is_telling)
        if entry is None and match[1].startswith("driftbayes."):
            _LOG.warning("%s is not in the reference", match[1], location=literal)
        return entry

    def link(self, page: str, entry: Entry, content: nodes.Element) -> nodes.reference:
        """Make a link from a page to an entry."""
        builder = self.app.builder
        return make_refnode(builder, page, entry.page, entry.anchor, content.deepcopy(), entry.name)


def _command_words(text: str) -> tuple[str, ...]:
    """Return the words of a command line that name a command: `driftbayes turbulence run`."""
    known = {parser.prog for parser in parsers()}
    words: list[str] = []
    for word in text.split():
        if " ".join([*words, word]) not in known:
            break
        words.append(word)
    return tuple(words)


def _context(node: nodes.Node) -> tuple[str, str]:
    """Return module and class of the description around a node."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, desc) and node.get("domain") == "py":
            signature = node[0]
            is_class = node["objtype"] in ("class", "exception")
            fullname = str(signature.get("fullname", ""))
            owner = fullname if is_class else str(signature.get("class", ""))
            return str(signature.get("module", "")), owner
    return "", ""
