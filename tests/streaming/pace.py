"""What a worker does to blocks; in a module that imports nothing else."""

import time


def slowly(tracks):
    """Leave them as they are, after a while in which it can be killed."""
    time.sleep(0.1)
    return tracks
