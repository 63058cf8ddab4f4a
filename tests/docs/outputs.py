"""Whether what a page shows is what was printed."""

import re

_NUMBER = re.compile(r"(?<![\w.])[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# Lines, or a part of one, that the page leaves out.
_ELLIPSIS = "…"
# A fingerprint changes with the last digit of data, which processors and versions of pandas round
# in their own ways.
_FINGERPRINT = re.compile(r"\b[0-9a-f]{16}\b")
# Errors of quadrature below this are rounding, which no two machines share.
_ROUNDING = 1e-9
# Last digits may fall to the other side on another processor.
_UNITS = 1.000001


def difference(shown: str, printed: str, *, share: float = 0.0) -> str | None:
    """The first line shown that was not printed, in order; None if all were.

    A line "…" stands for any number of lines, and "…" within a line for any text. Between
    two of them every line counts. Words must be equal; numbers may differ by one in the last digit
    that is shown, or by a share of themselves. Fingerprints, the width of spaces and the length of
    the rules of tables do not matter.
    """
    wanted, came = _lines(shown), _lines(printed)
    position, free = 0, False
    for line in wanted:
        if line == _ELLIPSIS:
            free = True
            continue
        last = len(came) if free else min(position + 1, len(came))
        for index in range(position, last):
            if _alike(line, came[index], share):
                position, free = index + 1, False
                break
        else:
            return line
    if not free and position < len(came):
        return f"(nothing), but printed was: {came[position]}"
    return None


def _lines(text: str) -> list[str]:
    # Sentences are folded at 80 columns, and numbers may move the fold.
    text = re.sub(r"\n {4}(?=\S)", " ", text)
    text = _FINGERPRINT.sub("fingerprint", text)
    # A rule is as long as its table is wide, which says nothing.
    lines = (re.sub("─+", "─", " ".join(line.split())) for line in text.splitlines())
    return [line for line in lines if line]


def _alike(shown: str, came: str, share: float) -> bool:
    """Compare the words by a pattern, then the numbers by their values."""
    # Whole numbers are counts, but beside an error.
    has_error = "±" in shown
    pattern, position, numbers = "", 0, []
    for match in _NUMBER.finditer(shown):
        pattern += _literal(shown[position : match.start()]) + f"({_NUMBER.pattern})"
        is_error = shown[: match.start()].endswith("± ")
        numbers.append((match[0], is_error))
        position = match.end()
    pattern += _literal(shown[position:])
    found = re.fullmatch(pattern, came)
    if found is None:
        return False
    return all(
        _close(text, value, share if has_error or "." in text else 0.0)
        or (is_error and max(_value(text), _value(value)) < _ROUNDING)
        for (text, is_error), value in zip(numbers, found.groups(), strict=True)
    )


def _literal(text: str) -> str:
    return ".*?".join(map(re.escape, text.split(_ELLIPSIS)))


def _close(shown: str, came: str, share: float) -> bool:
    """Equal, one unit of the last digit shown apart, or a share of the value."""
    if shown == came:
        return True
    if abs(_value(shown) - _value(came)) <= share * abs(_value(shown)):
        return True
    digits, _, power = shown.partition("e")
    decimals = len(digits.partition(".")[2])
    # A whole number that is not rounded is a count.
    if decimals == 0 and not power:
        return False
    unit = 10.0 ** (int(power or 0) - decimals)
    return abs(_value(shown) - _value(came)) <= _UNITS * unit


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))
