"""Words at the end of an error: did you mean ...?"""

__all__ = ["did_you_mean", "nearest"]

from collections.abc import Iterable
from difflib import get_close_matches

# Of equal letters. At difflib's own 0.6 a `sigma` would be taken for a mistyped `gamma`.
_ALIKE = 0.7
_SHORTEST_BEGINNING = 3


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a mistyped one stands for; None if none is near.

    Args:
        word: What was written.
        known: What may be written.
    """
    # A file may have a million columns, and a mistyped word is not as long as a page.
    names = [name for name, _ in zip(known, range(1000), strict=False)]
    folded = {name.casefold().replace("-", "_"): name for name in reversed(names)}
    written = word[:100].casefold().replace("-", "_")
    close = get_close_matches(written, folded, n=1, cutoff=_ALIKE)
    if not close and len(written) >= _SHORTEST_BEGINNING:
        begun = [name for name in folded if name.startswith(written)]
        close = begun if len(begun) == 1 else []
    return folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: empty if no known one is near.

    Args:
        word: What was written.
        known: What may be written.
    """
    found = nearest(word, known)
    return "" if found is None else f"; did you mean {found!r}?"
