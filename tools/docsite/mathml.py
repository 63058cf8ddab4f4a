"""Formulas as MathML, generated at build time, so that no script or font is loaded."""

__all__ = ["add_renderer"]

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
# latex2mathml shows unknown commands unchanged, with the backslash.
_UNKNOWN = re.compile(r"\\[A-Za-z]+")
# Equivalent LaTeX that latex2mathml understands.
_BEFORE = (
    (re.compile(r"\\operatorname\{"), r"\\mathrm{"),
    (re.compile(r"\\(mathcal|mathbf|mathrm|mathbb) (\w)"), r"\\\1{\2}"),
    (re.compile(r"\\[bB]igg?[lr]?\\rvert"), r"\\big|"),
    (re.compile(r"\\[bB]igg?[lr]?(?=\\)"), ""),
)
# Browsers support few MathML alphabets: a single letter needs an attribute to be upright.
# Letters come as such, but those of \mathrm as numbers; TeX has capital Greek letters upright.
# Spaces as in TeX: none around a slash, a thin one after a named function.
_AFTER = (
    (
        re.compile(r"<mi>(&#x000[4-7][0-9A-F];|&#x003[9A][0-9A-F];)</mi>"),
        r"<mi mathvariant='normal'>\1</mi>",
    ),
    (re.compile(r"<mo>(&#x0221E;)</mo>"), r"<mi>\1</mi>"),
    (re.compile(r"<mi>(&#x027E[89];)</mi>"), r"<mo stretchy='false'>\1</mo>"),
    (re.compile(r"<mo>(&#x0002F;)</mo>"), r"<mo lspace='0' rspace='0'>\1</mo>"),
    (
        re.compile(r"(<mi>(?:ln|log|exp|cos|sin)</mi>)(?=<m[in]|<msu)"),
        r"\1<mspace width='0.167em'/>",
    ),
)


def add_renderer(app: Sphinx) -> None:
    """Let the HTML builder write formulas as MathML."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))


def mathml(latex: str, display: str, where: nodes.Node | None = None) -> str:
    """Convert a formula; an unknown command causes a warning, which fails the build."""
    for pattern, better in _BEFORE:
        latex = pattern.sub(better, latex)
    try:
        text = convert(latex, display=display)
    except Exception as error:  # the converter raises many kinds of errors
        _LOG.warning("formula %r: %s: %s", latex, type(error).__name__, error, location=where)
        return ""
    if unknown := _UNKNOWN.findall(text):
        _LOG.warning("formula %r: %s is not known", latex, unknown[0], location=where)
    for pattern, better in _AFTER:
        text = pattern.sub(better, text)
    return text


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), "inline", node))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    if node.get("number"):
        msg = "numbered formulas are not written; cite an equation by its id in equations.md"
        raise ExtensionError(msg)
    formula = mathml(node.astext(), "block", node)
    writer.body.append(f'<div class="formula">{formula}</div>')
    raise nodes.SkipNode
