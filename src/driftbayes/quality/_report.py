"""Inspect trajectories with all checks, and repair them on request."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftbayes._representation import Described
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, NothingLeftError, expect
from driftbayes.quality._checks import (
    CHECKS,
    AbstractCheck,
    Drogue,
    Finding,
    Short,
    Spikes,
    Stuck,
    counts_text,
    parse_check,
)

# Checks of `--qc default`. Repeated positions may be slow motion after rounding, and gaps do no
# harm.
DEFAULT: tuple[AbstractCheck, ...] = (Drogue(if_known=True), Stuck(), Spikes(), Short())
# A repair may reveal another problem: checks are repeated until nothing is found.
_MAX_ROUNDS = 50

_BLANKED = "{positions} in {tracks} set to missing"
_REPAIRS = {
    "drogued": "{positions} in {tracks} removed",
    "gaps": "{tracks} split before {positions}",
    "min-points": "{tracks} with {positions} removed",
}

_Checks = str | Iterable[str | AbstractCheck]


@dataclass(frozen=True, eq=False, repr=False)
class QualityReport(Described):
    """Findings of all checks.

    Args:
        findings: Findings of all checks, including empty ones.
        n_observations: Number of observations checked, without missing ones.
        n_trajectories: Number of trajectories checked.
    """

    findings: tuple[Finding, ...]
    n_observations: int
    n_trajectories: int

    def __getitem__(self, name: str) -> Finding:
        """Return the finding of a check."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        msg = f"unknown check {name!r}; known are {', '.join(f.name for f in self.findings)}"
        raise DriftbayesError(msg)

    @property
    def is_clean(self) -> bool:
        """Whether no check found anything."""
        return not any(finding.n_observations for finding in self.findings)

    @property
    def notes(self) -> list[str]:
        """A line for each notable finding, with what to do."""
        return [
            f"{f.sentence}; inspect with `driftbayes qc`, or repair with --qc {f.name}"
            for f in self.findings
            if f.is_notable
        ]

    def apply(self, trajectories: Trajectories, checks: _Checks = DEFAULT) -> Trajectories:
        """Repair trajectories; see `apply`."""
        return apply(trajectories, checks)

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        return {
            "n_observations": self.n_observations,
            "n_trajectories": self.n_trajectories,
            "findings": [finding.to_json() for finding in self.findings],
        }


def inspect(trajectories: Trajectories, checks: _Checks = ()) -> QualityReport:
    """Inspect trajectories with every check, without changing them.

    Args:
        trajectories: The trajectories.
        checks: Checks with other limits than the default ones, as in `--qc`.
    """
    given = {check.name: check for check in parse_checks(checks)}
    findings = [given.get(name, kind()).find(trajectories) for name, kind in CHECKS.items()]
    return QualityReport(
        tuple(findings), int(trajectories.observed.sum()), trajectories.n_trajectories
    )


def apply(trajectories: Trajectories, checks: _Checks = DEFAULT) -> Trajectories:
    """Repair trajectories, and record the repairs in their provenance.

    Args:
        trajectories: The trajectories.
        checks: Checks as in `--qc`, or as objects.
    """
    chosen = parse_checks(checks)
    for check in chosen:
        if isinstance(check, Drogue):
            check.refuse_unknown(trajectories)
    totals = {check.name: 0 for check in chosen}
    repaired: dict[str, set[str]] = {check.name: set() for check in chosen}
    limits: dict[str, dict[str, Any]] = {}

    def records() -> list[dict[str, Any]]:
        return [
            {
                "check": name,
                "n_observations": n,
                "n_trajectories": len(repaired[name]),
                **limits.get(name, {}),
            }
            for name, n in totals.items()
        ]

    result = trajectories
    for _ in range(_MAX_ROUNDS):
        changed = False
        for check in chosen:
            finding = check.find(result)
            limits.setdefault(check.name, finding.limits)
            if finding.n_observations:
                changed = True
                totals[check.name] += finding.n_observations
                owners = np.unique(result.trajectory_index[finding.rows])
                repaired[check.name] |= set(result.ids[owners].astype(str).tolist())
                try:
                    result = check.repair(result, finding)
                except NothingLeftError as error:
                    error.quality = records()
                    raise
        if not changed:
            break
    provenance = {k: v for k, v in result.provenance.items() if k != "dropped_short"}
    if "dropped_short" in trajectories.provenance:
        provenance["dropped_short"] = trajectories.provenance["dropped_short"]
    before = list(trajectories.provenance.get("quality", []))
    return replace(result, provenance={**provenance, "quality": before + records()})


def fix_limits(trajectories: Trajectories, checks: _Checks) -> tuple[AbstractCheck, ...]:
    """Return checks with limits computed from a part of a file, to be applied to all parts.

    Args:
        trajectories: A part of the file.
        checks: Checks as in `--qc`, or as objects.
    """
    return tuple(check.fix_limits(trajectories) for check in parse_checks(checks))


def merge_records(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Merge the records of the same checks on two parts of a file, as stored in provenance.

    Args:
        first: Records of the first part, or none.
        second: Records of the second part, or none.
    """
    if not (first and second):
        return [dict(record) for record in first or second]
    both = []
    for a, b in zip(first, second, strict=True):
        # Limits that differ, such as shares of a part, do not apply to the whole.
        record = {name: value for name, value in a.items() if b.get(name) == value}
        counts = {name: a[name] + b[name] for name in ("n_observations", "n_trajectories")}
        both.append({**record, **counts})
    return both


def applied(trajectories: Trajectories | Mapping[str, Any]) -> list[str]:
    """Describe the repairs made to trajectories, one line per check.

    Args:
        trajectories: The trajectories, or their provenance.
    """
    lines = []
    source = trajectories
    provenance = source.provenance if isinstance(source, Trajectories) else source
    for record in provenance.get("quality", []):
        positions, tracks = counts_text(record["n_observations"], record["n_trajectories"])
        repair = _REPAIRS.get(record["check"], _BLANKED).format(positions=positions, tracks=tracks)
        lines.append(f"{record['check']}: {repair}")
    return lines


def parse_checks(checks: _Checks) -> tuple[AbstractCheck, ...]:
    """Parse `spikes=3m/s,stuck=6h:50m,drogued,min-points=20,gaps=2d,repeated` or `default`.

    Checks are returned in the order in which they are applied.

    Args:
        checks: Text, or a sequence of texts and checks.
    """
    wanted = "text such as 'default' or 'spikes=3m/s', or a list of checks"
    expect(checks, str | Iterable, "checks", wanted)
    items = checks.split(",") if isinstance(checks, str) else list(checks)
    for item in items:
        expect(item, str | AbstractCheck, "checks", wanted)
    parsed: dict[str, AbstractCheck] = {}
    for item in items:
        if isinstance(item, AbstractCheck):
            parsed[item.name] = item
            continue
        name, _, value = item.strip().partition("=")
        if name == "default" and not value:
            parsed = {**{check.name: check for check in DEFAULT}, **parsed}
        elif name:
            parsed[name] = parse_check(name, value)
    order = list(CHECKS)
    return tuple(sorted(parsed.values(), key=lambda check: order.index(check.name)))
