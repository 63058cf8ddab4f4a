"""Write the coastline for maps and reports: `python tools/make_coast.py land-50m.json`.

The input is Natural Earth's 1:50m land (public domain) as TopoJSON, from the npm package
world-atlas: `npm pack world-atlas`, then unpack it. Coordinates are rounded to 0.01°, about 1 km.
"""

import argparse
import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src/driftbayes/plots/static/coast.npz"
# Minimum number of points of an island; smaller ones are not visible.
_MIN_POINTS = 5


def main(source: Path, target: Path = TARGET) -> None:
    """Write the coastlines, concatenated, as differences of integers.

    Args:
        source: File land-50m.json.
        target: File to write.
    """
    topology = json.loads(source.read_text(encoding="utf-8"))
    scale, offset = (np.array(topology["transform"][key]) for key in ("scale", "translate"))
    lines = []
    for arc in topology["arcs"]:
        points = np.cumsum(np.array(arc), axis=0) * scale + offset
        whole = np.round(100 * points).astype(np.int64)
        kept = np.concatenate([[True], np.any(np.diff(whole, axis=0) != 0, axis=1)])
        if kept.sum() >= _MIN_POINTS:
            lines.append(whole[kept])
    np.savez_compressed(
        target,
        first=np.array([line[0] for line in lines], dtype=np.int16),
        size=np.array([len(line) for line in lines], dtype=np.int32),
        step=np.concatenate([np.diff(line, axis=0) for line in lines]).astype(np.int32),
    )
    print(f"wrote {target}: {len(lines)} lines, {sum(map(len, lines)):,} points")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    main(parser.parse_args().source)
