"""Run all benchmarks and print ratios: `make bench`."""

import json
import os
import platform
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

from commands import commands  # noqa: E402
from engine import engine_table  # noqa: E402
from evidence import evidence_methods  # noqa: E402
from langevin import langevin_experiment, turbulence_size  # noqa: E402
from passes import long_trajectories, statistics_pass  # noqa: E402
from report_page import report_page  # noqa: E402
from throughput import throughput  # noqa: E402
from turbulence import flow_steps  # noqa: E402


def main() -> None:
    """Run, print and write the results."""
    result = {
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "jax": jax.__version__,
            "load_before": os.getloadavg(),
        },
        "commands_seconds": commands(),
        "engine": engine_table(),
        "langevin_experiment": langevin_experiment(),
        "turbulence_size": turbulence_size(),
        "statistics_pass": statistics_pass(),
        "long_trajectories": long_trajectories(),
        "throughput": throughput(),
        "flow_steps": flow_steps(),
        "evidence_methods": evidence_methods(),
        "report_page": report_page(),
    }
    text = json.dumps(result, indent=2)
    folder = Path("bench-results")
    folder.mkdir(exist_ok=True)
    (folder / "bench.json").write_text(text)
    print(text)
    for name in ("langevin_experiment", "turbulence_size"):
        row = result[name]
        assert isinstance(row, dict)
        print(f"{row['size']}: {row['ratio']:,.0f} times faster than the plain procedure")


if __name__ == "__main__":
    main()
