"""A statement of the paper beside what we find."""

__all__ = ["Claim", "yes"]

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A statement of the paper beside what is found here.

    Args:
        claim: The statement.
        paper: What the paper says, or where.
        ours: What is found.
        agrees: "yes", "no", "in part", or "-" where the paper says nothing.
    """

    claim: str
    paper: str
    ours: str
    agrees: str


def yes(condition: object) -> str:
    """The answer to a question that has been put as a condition."""
    return "yes" if bool(condition) else "no"
