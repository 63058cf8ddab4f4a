"""Files of the tools themselves, block by block: every trajectory as in the whole file."""

from pathlib import Path

import numpy as np
import pytest

from driftbayes.io import read_trajectories
from driftbayes.io.blocks import plan_blocks, read_block

SAMPLES = sorted((Path(__file__).parents[1] / "io" / "data").iterdir())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_blocks_are_the_whole_file_to_the_last_bit(path):
    whole = read_trajectories(path)
    expected = dict(
        zip(whole.ids.tolist(), np.split(whole.positions, whole.starts[1:-1]), strict=True)
    )
    found = {}
    with plan_blocks(path, block_points=700) as plan:
        for block in plan.blocks:
            part = read_block(block)
            pieces = np.split(part.positions, part.starts[1:-1])
            found |= dict(zip(part.ids.tolist(), pieces, strict=True))
    assert found.keys() == expected.keys()
    for name, positions in expected.items():
        assert np.array_equal(found[name], positions, equal_nan=True)
