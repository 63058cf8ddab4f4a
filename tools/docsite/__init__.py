"""Sphinx extension for building the site."""

__all__ = ["setup"]

import re
from importlib import import_module
from typing import Any, get_origin

from docutils import nodes
from sphinx.addnodes import desc
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from docsite import links, mathml
from docsite.commands import CommandLine, CommandOptions, CommandSummary
from docsite.docstrings import to_rst
from docsite.names import assignment_of, constants, public_modules
from docsite.public import PublicNames
from docsite.references import Links
from docsite.shortcuts import add_shortcuts


def setup(app: Sphinx) -> dict[str, bool]:
    """Set up the extension; called by Sphinx."""
    mathml.add_renderer(app)
    app.add_directive("command-line", CommandLine)
    app.add_directive("command-summary", CommandSummary)
    app.add_directive("command-options", CommandOptions)
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", _convert)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-skip-member", _skip)
    app.connect("builder-inited", _describe_constants)
    app.connect("doctree-read", _name_aliases)
    app.connect("include-read", links.from_the_root)
    Links(app)
    add_shortcuts(app)
    return {"parallel_read_safe": False, "parallel_write_safe": True}


# Maximum number of characters of a value that is shown.
_LONG = 60


def _describe_constants(app: Sphinx) -> None:
    """Document constants, which autodoc skips because comments are not docstrings."""
    for module in public_modules():
        names = constants(module)
        if not names:
            continue
        analyzer = ModuleAnalyzer.for_module(module)
        analyzer.analyze()
        for name in names:
            value = getattr(import_module(module), name)
            made = assignment_of(f"{module}.{name}")
            lines = [*made.comment, ""]
            if get_origin(value) is not None:
                lines += [f"Alias of `{made.value}`.", ""]
            if get_origin(value) is not None or len(repr(value)) > _LONG:
                lines += [":meta hide-value:", ""]
            analyzer.attr_docs["", name] = lines


def _convert(app: Sphinx, what: str, name: str, value: object, options: Any, lines: Any) -> None:
    lines[:] = to_rst(list(lines))


def _name_aliases(app: Sphinx, doctree: nodes.document) -> None:
    """Show the value of an alias as in the source, not as the resulting classes."""
    for described in doctree.findall(desc):
        signature, content = described[0], described[-1]
        for paragraph in list(content.findall(nodes.paragraph)):
            if not paragraph.astext().startswith("alias of "):
                continue
            name = f"{signature.get('module')}.{signature.get('fullname')}"
            expression = nodes.literal("", assignment_of(name).value)
            parts = [nodes.Text("Alias of "), expression, nodes.Text(".")]
            is_said = "Alias of" in content.astext()
            paragraph.replace_self([] if is_said else nodes.paragraph("", "", *parts))


def _shorten(
    app: Sphinx, what: str, name: str, value: object, options: Any, *texts: str | None
) -> tuple[str | None, ...]:
    """Show `Array`, `Scalar`, `ScalarLike` and defaults as in the source.

    Sphinx links no name of a signature that is not valid Python.
    """
    for long, short in _SHORTER.items():
        texts = tuple(text and text.replace(long, short) for text in texts)
    return tuple(text and _DEFAULT.sub(r"\1\2", text) for text in texts)


_SHORTER = {
    "jaxlib._jax.Array": "Array",
    "Float[Array, ''] | float | int": "ScalarLike",
    "Float[Array, '']": "Scalar",
    "<factory>": "...",
}
# A class or function as default.
_DEFAULT = re.compile(r"<(?:class '([\w.]+)'|function (\w+)(?: at 0x[0-9a-f]+)?)>")


def _skip(
    app: Sphinx,
    what: str,
    name: str,
    value: object,
    skip: bool,  # noqa: FBT001 -- as Sphinx calls it
    options: Any,
) -> bool | None:
    """Skip the fields of a named tuple, which the class describes."""
    is_field = str(getattr(value, "__doc__", "")).startswith("Alias for field number")
    return True if is_field else None
