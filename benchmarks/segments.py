"""Changes along tracks: calibration, accuracy on tracks with known changes, time and memory.

    python benchmarks/segments.py calibration 1000
    python benchmarks/segments.py switching 300
    python benchmarks/segments.py andi FILE.npz
    python benchmarks/segments.py time 100000 1000 [MODEL]

`calibration` draws everything from the priors. `switching` simulates tracks of two states, and
`andi` reads tracks simulated by andi-datasets (which needs another NumPy, so use a separate
environment): for each data set NAME the arrays `NAME_x` (track, frame, axis), in pixels, `NAME_cp`
(track, change), frames of the changes, padded with NaN. Both are scored as in the second AnDi
challenge: predicted changes are assigned to true ones, those fewer than 10 frames apart are found;
the Jaccard index is found / (found + missed + false), and the error is over those found.
`time` takes the number of points and of points per track, and a model (brownian).
"""

import resource
import sys
import time

import numpy as np
from scipy.optimize import linear_sum_assignment

import driftbayes as db
from driftbayes._typing import FloatArray
from driftbayes.changes import TrackSegments
from driftbayes.data import Trajectories

WITHIN = 10.0
N_FRAMES, SD = 200, 0.12


def score(truth: list[FloatArray], found: list[FloatArray]) -> tuple[float, float, int, int, int]:
    """Return Jaccard index, root mean square error, and numbers found, false and missed."""
    hits, false, missed, squares = 0, 0, 0, 0.0
    for known, own in zip(truth, found, strict=True):
        apart = np.abs(known[:, None] - own[None, :])
        rows, columns = linear_sum_assignment(apart)
        near = apart[rows, columns] < WITHIN
        hits += int(near.sum())
        squares += float(np.sum(apart[rows, columns][near] ** 2))
        false += len(own) - int(near.sum())
        missed += len(known) - int(near.sum())
    index = hits / max(hits + false + missed, 1)
    return index, float(np.sqrt(squares / max(hits, 1))), hits, false, missed


def judged(name: str, x: FloatArray, truth: list[FloatArray], prior: str) -> None:
    """Segment the tracks of one data set and print the score."""
    begin = time.perf_counter()
    tracks = db.read(list(x), dt=1.0, noise=SD)
    assert isinstance(tracks, Trajectories)
    result = tracks.segments(1.0, priors={"kappa": prior})
    took = time.perf_counter() - begin
    found = [track.change_times for track in result.tracks]
    index, error, hits, false, missed = score(truth, found)
    quiet = np.array([len(known) == 0 for known in truth])
    chances = np.array([track.any_change for track in result.tracks])
    alarms = f"{np.mean(chances[quiet] > 0.5):.1%} of {quiet.sum()}" if quiet.any() else "-"
    print(
        f"{name}: Jaccard {index:.3f}, RMSE {error:.2f} frames; {hits} found, {false} false, "
        f"{missed} missed; false alarms {alarms}; {took:.1f} s",
        flush=True,
    )


def switching(n_tracks: int) -> None:
    """Segment tracks of two states that switch with probability 0.01 per frame."""
    rng = np.random.default_rng(1)
    for ratio in (1, 2, 4, 10, 100):
        x: list[FloatArray] = []
        truth: list[FloatArray] = []
        while len(x) < n_tracks:
            state = (np.cumsum(rng.random(N_FRAMES) < 0.01) + rng.integers(2)) % 2
            changes = 1 + np.flatnonzero(np.diff(state))
            if np.any(np.diff(np.concatenate([[0], changes, [N_FRAMES]])) < 3):
                continue
            kappa = np.where(state == 1, 1.0, 1.0 / ratio)[1:, None]
            steps = np.sqrt(2 * kappa) * rng.normal(size=(N_FRAMES - 1, 2))
            path = np.vstack([np.zeros(2), np.cumsum(steps, axis=0)])
            x.append(path + SD * rng.normal(size=path.shape))
            # The first step of the new state ends at the frame of the change.
            truth.append((changes - 1.0)[: len(changes) * (ratio > 1)].astype(np.float64))
        judged(f"two states, ratio {ratio}", np.array(x), truth, "exponential:1")


def andi(path: str) -> None:
    with np.load(path) as file:
        names = [name.removesuffix("_x") for name in file.files if name.endswith("_x")]
        for name in names:
            changes = [row[np.isfinite(row)] for row in file[f"{name}_cp"]]
            judged(name, file[f"{name}_x"], changes, "exponential:1")


def calibration(n_sets: int) -> None:
    """Segment tracks with changes and diffusivities drawn from the priors."""
    rng = np.random.default_rng(2)
    n_steps, rate = 50, 1 / 50
    for sd in (0.0, 0.7):
        x, truth = [], []
        for _ in range(n_sets):
            changes = rng.random(n_steps - 1) < -np.expm1(-rate)
            segment = np.concatenate([[0], np.cumsum(changes)])
            kappa = rng.exponential(size=segment[-1] + 1)[segment]
            steps = np.sqrt(2 * kappa)[:, None] * rng.normal(size=(n_steps, 2))
            path = np.vstack([np.zeros(2), np.cumsum(steps, axis=0)])
            x.append(path + sd * rng.normal(size=path.shape))
            truth.append(np.append(1 + np.flatnonzero(changes), kappa))
        tracks = db.read(x, dt=1.0, noise=sd or None)
        assert isinstance(tracks, Trajectories)
        found = tracks.segments(1.0, priors={"kappa": "exponential:1"}, rate=rate).tracks
        _report(sd, found, truth, n_steps)


def _report(
    sd: float, found: tuple[TrackSegments, ...], truth: list[FloatArray], n_steps: int
) -> None:
    p = np.array([track.any_change for track in found])
    changed = np.array([len(one) > n_steps for one in truth])
    places = [one[:-n_steps] for one in truth]
    excess = p - changed
    number = np.array([t.probability.sum() for t in found]) - [len(one) for one in places]
    root = np.sqrt(len(found))
    inside = np.concatenate(
        [
            (t.intervals[:, 0] <= one) & (one <= t.intervals[:, 1])
            for t, one in zip(found, places, strict=True)
            if len(t.changes) == len(one)
        ]
    )
    z = np.concatenate(
        [
            (one[-n_steps:] - t.average[:, 0]) / t.average_sd[:, 0]
            for t, one in zip(found, truth, strict=True)
        ]
    )
    print(
        f"error {sd}: P(change) less the truth {excess.mean():+.4f} ± {excess.std() / root:.4f}; "
        f"expected less true number {number.mean():+.4f} ± {number.std() / root:.4f}; "
        f"{inside.mean():.1%} of {len(inside)} changes in 95 % intervals; κ: z mean "
        f"{z.mean():+.3f}, sd {z.std():.3f}"
    )
    for some in np.array_split(np.argsort(p), 5):
        print(f"  mean P {p[some].mean():.3f}, changed {changed[some].mean():.3f}")
    none = np.array([track.log_bayes_factor for track in found])[~changed]
    shares = ", ".join(f"K > {b}: {np.mean(none > np.log(b)):.2%}" for b in (3, 20, 150))
    print(f"  {len(none)} sets without a change: {shares}", flush=True)


def measure(n_points: int, n_each: int, model: str = "brownian") -> None:
    rng = np.random.default_rng(0)
    size = np.where(np.arange(n_points) // max(n_each // 3, 1) % 2, 1.0, 0.3)[:, None]
    x = np.cumsum(size * rng.normal(size=(n_points, 2)), axis=0)
    tracks = Trajectories.from_arrays(x.reshape(-1, n_each, 2), dt=1.0)
    scales = db.Scales(u_rms=0.7, time=1.0)
    tracks[:1].segments(1.0, model=model, scales=scales)
    begin, work = time.perf_counter(), time.process_time()
    result = tracks.segments(1.0, model=model, scales=scales)
    took, work = time.perf_counter() - begin, time.process_time() - work
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"{model}, {n_points:,} points, {len(result):,} tracks: {took:.2f} s "
        f"({work:.2f} s of processors), "
        f"{memory:.2f} GiB, every {result[0].spacing} steps"
    )


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "andi":
        andi(given[0])
    elif what == "time":
        measure(int(given[0]), int(given[1]), *given[2:])
    else:
        {"calibration": calibration, "switching": switching}[what](int(given[0]))
