"""Describe the quality of data."""

from driftbayes._representation import Card, Table, counted, describe, summarise
from driftbayes.quality._report import QualityReport


@summarise.register
def _(report: QualityReport) -> str:
    return "; ".join(f.sentence for f in report.findings if f.n_observations) or "no findings"


@describe.register
def _(report: QualityReport) -> Card:
    rows = tuple(
        (f.name, f.sentence, str(f.n_observations), str(f.n_trajectories)) for f in report.findings
    )
    table = Table(("check", "finding", "positions", "trajectories"), rows, "llrr")
    tracks = counted(report.n_trajectories, "trajectory", "trajectories")
    headline = f"{counted(report.n_observations, 'position')} in {tracks}"
    remedy = (
        "Nothing was changed. Pass --qc default or --qc NAME,... (qc=) to other commands to repair "
        "data."
    )
    return Card("Quality", headline, (), () if report.is_clean else (remedy,), (table,))
