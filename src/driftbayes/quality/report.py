"""Inspect trajectories with all checks, and repair them if asked to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError, NothingLeftError
from driftbayes.quality.checks import (
    CHECKS,
    AbstractCheck,
    Drogue,
    Finding,
    Short,
    Spikes,
    Stuck,
    counted,
    parse_check,
)

# What `--qc default` applies: neither repeated positions, which may be slow steps in few digits,
# nor gaps, which harm nobody.
DEFAULT: tuple[AbstractCheck, ...] = (Drogue(if_known=True), Stuck(), Spikes(), Short())
# Mending one thing may lay open another: again until nothing is found.
_ROUNDS = 50

_BLANKED = "{positions} in {tracks} set to missing"
_DONE = {
    "drogued": "{positions} in {tracks} removed",
    "gaps": "{tracks} split before {positions}",
    "min-points": "{tracks} with {positions} removed",
}

_Checks = str | Iterable[str | AbstractCheck]


@dataclass(frozen=True, eq=False)
class QualityReport:
    """What all checks found in the same trajectories.

    Args:
        findings: One per check, empty ones too.
        n_observations: Observations looked at, missing ones not counted.
        n_trajectories: Trajectories looked at.
    """

    findings: tuple[Finding, ...]
    n_observations: int
    n_trajectories: int

    def __getitem__(self, name: str) -> Finding:
        """The finding of a check, by its name."""
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
        """A line for each finding that a person should be told, with what to do."""
        return [
            f"{f.sentence}; inspect with `driftbayes qc`, or repair with --qc {f.name}"
            for f in self.findings
            if f.is_notable
        ]

    def apply(self, trajectories: Trajectories, checks: _Checks = DEFAULT) -> Trajectories:
        """Repair trajectories; see `apply`."""
        return apply(trajectories, checks)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and text."""
        return {
            "n_observations": self.n_observations,
            "n_trajectories": self.n_trajectories,
            "findings": [finding.to_json() for finding in self.findings],
        }

    def __repr__(self) -> str:
        """The findings, or that there are none."""
        found = [f.sentence for f in self.findings if f.n_observations]
        return f"<QualityReport: {'; '.join(found) or 'no findings'}>"


def inspect(trajectories: Trajectories, checks: _Checks = ()) -> QualityReport:
    """Look at trajectories with every check; nothing is changed.

    Args:
        trajectories: Where the particles were.
        checks: Limits of some checks, as in `--qc`; the others have theirs by default.
    """
    own = {check.name: check for check in parse_checks(checks)}
    findings = [own.get(name, kind()).find(trajectories) for name, kind in CHECKS.items()]
    return QualityReport(
        tuple(findings), int(trajectories.observed.sum()), trajectories.n_trajectories
    )


def apply(trajectories: Trajectories, checks: _Checks = DEFAULT) -> Trajectories:
    """Repair trajectories, with what was done in the provenance.

    Args:
        trajectories: Where the particles were.
        checks: Which, as in `--qc`, or as objects.
    """
    chosen = parse_checks(checks)
    for check in chosen:
        if isinstance(check, Drogue):
            check.refuse_unknown(trajectories)
    totals = {check.name: 0 for check in chosen}
    touched: dict[str, set[str]] = {check.name: set() for check in chosen}
    limits: dict[str, dict[str, Any]] = {}

    def done() -> list[dict[str, Any]]:
        return [
            {
                "check": name,
                "n_observations": n,
                "n_trajectories": len(touched[name]),
                **limits.get(name, {}),
            }
            for name, n in totals.items()
        ]

    result = trajectories
    for _ in range(_ROUNDS):
        changed = False
        for check in chosen:
            finding = check.find(result)
            limits.setdefault(check.name, finding.limits)
            if finding.n_observations:
                changed = True
                totals[check.name] += finding.n_observations
                owners = np.unique(result.trajectory_index[finding.rows])
                touched[check.name] |= set(result.ids[owners].astype(str).tolist())
                try:
                    result = check.repair(result, finding)
                except NothingLeftError as error:
                    error.quality = done()
                    raise
        if not changed:
            break
    provenance = {k: v for k, v in result.provenance.items() if k != "dropped_short"}
    if "dropped_short" in trajectories.provenance:
        provenance["dropped_short"] = trajectories.provenance["dropped_short"]
    before = list(trajectories.provenance.get("quality", []))
    return replace(result, provenance={**provenance, "quality": before + done()})


def fixed_by(trajectories: Trajectories, checks: _Checks) -> tuple[AbstractCheck, ...]:
    """Checks with limits taken from some of a file, to be applied to each part of it.

    Args:
        trajectories: Some of the file.
        checks: Which, as in `--qc`, or as objects.
    """
    return tuple(check.fixed_by(trajectories) for check in parse_checks(checks))


def merged(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What the same checks have done to two parts of a file, as recorded in provenance.

    Args:
        first: Records of one part, or none.
        second: Records of the other.
    """
    if not (first and second):
        return [dict(record) for record in first or second]
    both = []
    for a, b in zip(first, second, strict=True):
        # Limits that are shares of a part say nothing of the whole.
        record = {name: value for name, value in a.items() if b.get(name) == value}
        counts = {name: a[name] + b[name] for name in ("n_observations", "n_trajectories")}
        both.append({**record, **counts})
    return both


def applied(trajectories: Trajectories | Mapping[str, Any]) -> list[str]:
    """What checks have done to trajectories, a line each.

    Args:
        trajectories: The trajectories, or their provenance.
    """
    lines = []
    known = trajectories.provenance if isinstance(trajectories, Trajectories) else trajectories
    for done in known.get("quality", []):
        positions, tracks = counted(done["n_observations"], done["n_trajectories"])
        what = _DONE.get(done["check"], _BLANKED).format(positions=positions, tracks=tracks)
        lines.append(f"{done['check']}: {what}")
    return lines


def parse_checks(checks: _Checks) -> tuple[AbstractCheck, ...]:
    """Checks from `spikes=3m/s,stuck=6h:50m,drogued,min-points=20,gaps=2d,repeated` or `default`.

    They come in the order in which they are applied, whatever the order they were named in.

    Args:
        checks: Text, or several, or checks already.
    """
    items = checks.split(",") if isinstance(checks, str) else list(checks)
    found: dict[str, AbstractCheck] = {}
    for item in items:
        if isinstance(item, AbstractCheck):
            found[item.name] = item
            continue
        name, _, value = item.strip().partition("=")
        if name == "default" and not value:
            found = {**{check.name: check for check in DEFAULT}, **found}
        elif name:
            found[name] = parse_check(name, value)
    order = list(CHECKS)
    return tuple(sorted(found.values(), key=lambda check: order.index(check.name)))
