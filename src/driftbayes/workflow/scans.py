"""Read a scan back."""

__all__ = ["open_scan"]

from driftbayes.comparison import Scan
from driftbayes.io import read_scan
from driftbayes.storage.atomic import PathLike


def open_scan(path: PathLike) -> Scan:
    """Read a scan over tau, with its hypotheses, evidences and estimates.

    Args:
        path: A file that `Scan.save` or `driftbayes scan -o` wrote.

    Raises:
        DriftbayesError: The file is no scan, is damaged, or was written by version 0.1.
    """
    return Scan.from_dataset(read_scan(path))
