"""How much a file may claim to hold, so that a wrong number in it cannot fill the memory."""

__all__ = ["LONGEST_ID", "is_plausible"]

# In an array of text all entries take the room of the longest.
LONGEST_ID = 200
# Deflate turns one byte into at most 1032; the other filters in use stay below on real numbers.
_MOST_PER_COMPRESSED_BYTE = 1100
# Any machine can spare this much, and what is small need not be stored to the last byte.
_ALWAYS_ALLOWED = 2**26


def is_plausible(declared: int, stored: int, *, compressed: bool) -> bool:
    """Whether so many bytes can come out of what is stored.

    Args:
        declared: Number of bytes in memory.
        stored: Number of bytes in the file.
        compressed: Whether those in the file may be compressed.
    """
    possible = stored * _MOST_PER_COMPRESSED_BYTE if compressed else stored
    return declared <= max(possible, _ALWAYS_ALLOWED)
