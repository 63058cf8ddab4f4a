"""The numbers of docs/evidence.md are those of the files that the benchmark wrote."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/evidence.md").read_text()


def test_the_table_of_samplers_is_the_benchmark_s():
    path = ROOT / "benchmarks/evidence.py"
    spec = importlib.util.spec_from_file_location("evidence_benchmark", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    stored = json.loads((ROOT / "docs/figures/evidence-methods.json").read_text())
    assert benchmark.table(stored["analytic"] + stored["langevin"]) in PAGE


def test_the_table_of_calibrations_is_that_of_their_files():
    files = sorted((ROOT / "docs/figures").glob("calibration*.json"))
    assert len(files) == 5
    for path in files:
        r = json.loads(path.read_text())
        ranks = " | ".join(f"{v['chi_square']:.1f}" for v in r["ranks"].values())
        row = (
            f"| {r['method']} | {r['n_data_sets']} | {r['mean_probability']:.4f} ± "
            f"{r['mean_probability_err']:.4f} | {r['chi_square']:.1f} in {r['n_bins']} | {ranks} | "
            f"{r['n_doubtful']} |"
        )
        assert row in PAGE
