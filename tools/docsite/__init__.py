"""The extension of Sphinx that the site is built with; its parts are one idea per file."""

__all__ = ["setup"]

from importlib import import_module
from typing import Any, get_origin

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from docsite import links, mathml
from docsite.commands import CommandLine
from docsite.docstrings import to_rst
from docsite.names import assignment_of, constants, public_modules
from docsite.parts import OtherModules
from docsite.public import PublicNames
from docsite.references import Links


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx when the extension is loaded."""
    mathml.add_renderer(app)
    app.add_directive("command-line", CommandLine)
    app.add_directive("public-names", PublicNames)
    app.add_directive("other-modules", OtherModules)
    app.connect("autodoc-process-docstring", _convert)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-skip-member", _skip)
    app.connect("builder-inited", _describe_constants)
    app.connect("include-read", links.from_the_root)
    Links(app)
    return {"parallel_read_safe": False, "parallel_write_safe": True}


# A value that takes more characters is not shown.
_LONG = 60


def _describe_constants(app: Sphinx) -> None:
    """Let autodoc see constants, which it would leave out because a comment is no docstring."""
    for module in public_modules():
        analyzer = ModuleAnalyzer.for_module(module)
        analyzer.analyze()
        for name in constants(module):
            value = getattr(import_module(module), name)
            made = assignment_of(f"{module}.{name}")
            lines = [*made.comment, ""]
            if get_origin(value) is not None:
                lines += [f"Alias of `{made.value}`.", ""]
            if get_origin(value) is not None or len(repr(value)) > _LONG:
                lines += [":meta hide-value:", ""]
            analyzer.attr_docs["", name] = lines


def _convert(app: Sphinx, what: str, name: str, value: object, options: Any, lines: Any) -> None:
    if lines and lines[0].startswith("alias of"):
        # As the source has it, not as the classes that are made of it are called.
        lines[:] = [f"Alias of `{assignment_of(name).value}`."]
    lines[:] = to_rst(list(lines))


def _shorten(
    app: Sphinx, what: str, name: str, value: object, options: Any, *texts: str | None
) -> tuple[str | None, ...]:
    """Say `Array`, `Scalar` and `ScalarLike` as the source does."""
    for long, short in _SHORTER.items():
        texts = tuple(text and text.replace(long, short) for text in texts)
    return texts


_SHORTER = {
    "jaxlib._jax.Array": "Array",
    "Float[Array, ''] | float | int": "ScalarLike",
    "Float[Array, '']": "Scalar",
}


def _skip(
    app: Sphinx,
    what: str,
    name: str,
    value: object,
    skip: bool,  # noqa: FBT001 -- as Sphinx calls it
    options: Any,
) -> bool | None:
    """Leave out the fields of a named tuple: the class says what they are."""
    is_field = str(getattr(value, "__doc__", "")).startswith("Alias for field number")
    return True if is_field else None
