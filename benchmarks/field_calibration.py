"""Calibration of the errors of fields, one row of the table in docs/fields.md per case.

python benchmarks/field.py calibration 1d 60 --workers 16
python benchmarks/field.py calibration all 60 --workers 16
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fields"))
from field_cases import CASES, judge, summary


def calibration(*arguments: str) -> None:
    """Print a row for each case: scaled errors and ln K of many data sets."""
    parser = argparse.ArgumentParser(prog="benchmarks/field.py calibration")
    parser.add_argument("case", choices=[*CASES, "all"])
    parser.add_argument("n", type=int, help="data sets")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args(arguments)
    # All except the slow one.
    names = [name for name in CASES if name != "2d-long"] if args.case == "all" else [args.case]
    # Each worker has one thread.
    os.environ |= {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    rows = {}
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        for name in names:
            started = time.time()
            found = pool.map(partial(judge, name), range(args.n), chunksize=1)
            rows[name] = summary(found)
            print(_row(name, rows[name]), f"({time.time() - started:.0f} s)", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


def _row(name: str, found: dict[str, float]) -> str:
    words = f"{name}: {found['n']:.0f} sets, {CASES[name].words}; "
    if "mean of z" in found:
        words += (
            f"mean of z {found['mean of z']:+.2f} ± {found['error of the mean']:.2f}, "
            f"sd {found['sd of z']:.2f}, within 95 % {found['within 95 %']:.1%}, "
            f"smallest ln K {found['smallest ln K']:.0f}"
        )
    else:
        words += f"ln K median {found['median ln K']:.1f}, largest {found['largest ln K']:.1f}"
    return words
