"""Files of the tools themselves, block by block: every trajectory as in the whole file."""

from pathlib import Path

import numpy as np
import pytest

from driftbayes.io import read_trajectories
from driftbayes.io._blocks import plan_blocks, read_block

SAMPLES = sorted((Path(__file__).parents[1] / "io" / "data").iterdir())


@pytest.mark.sampled(3)
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


@pytest.mark.parametrize(
    ("separator", "before"), [("\t", ""), (";", ""), (",", "# a note\n# another\n"), ("\t", "#\n")]
)
def test_tables_of_any_separator_are_read_in_blocks(tmp_path, separator, before):
    rows = [["id", "time", "x", "y"]]
    rows += [[str(i), str(t), str(i + 0.5 * t), str(t)] for t in range(40) for i in range(3)]
    path = tmp_path / "a.csv"
    path.write_text(before + "".join(separator.join(row) + "\n" for row in rows))
    whole = read_trajectories(path)
    with plan_blocks(path, block_points=4) as plan:
        parts = [read_block(block) for block in plan.blocks]
    assert len(parts) > 1
    found = {str(i): part for part in parts for i in part.ids}
    assert set(found) == {str(i) for i in whole.ids}
    assert sum(len(part.times) for part in parts) == len(whole.times)
    assert sorted(np.concatenate([p.positions for p in parts]).tolist()) == sorted(
        whole.positions.tolist()
    )
