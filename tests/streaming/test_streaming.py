"""A scan by way of sums is the scan, whatever the file, the blocks and the workers."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from belt import LENGTHS, ragged_tracks, table_of, write_parcels_zarr, write_time_major
from numpy.testing import assert_allclose, assert_array_equal

import driftbayes as db
import driftbayes.io._formats as known_formats
from driftbayes.comparison import make_hypotheses, scan_hypotheses
from driftbayes.data._sampling import displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories, write_trajectories
from driftbayes.io._blocks import Block, plan_blocks, read_block
from driftbayes.io._dataset_formats import READERS
from driftbayes.io._formats import Format
from driftbayes.io._reading import ReadOptions
from driftbayes.io._writing import to_dataset
from driftbayes.models import MODELS, model_named, preparation
from driftbayes.models._prepare import sum_moments
from driftbayes.streaming import TallySpec, Workers, scan_tally, tally_file, tally_of
from driftbayes.streaming._scan import check_fits

TAUS = (0.1, 0.2, 0.3, 0.7, 2.0, 5.0)
TRACKS = ragged_tracks()
RAGGED_ZARR = Format(
    "ragged",
    "as clouddrift has it",
    ("zarr",),
    "dataset_formats",
    lambda contents: contents.has("rowsize"),
)


def models(*names):
    return lambda n_dim: [model_named(name, MODELS, n_dim) for name in names]


PLAIN = models("brownian", "langevin")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("belt")
    for name in ("tracks.nc", "tracks.csv", "tracks.csv.gz"):
        write_trajectories(TRACKS, folder / name)
    pq.write_table(table_of(TRACKS), folder / "sorted.parquet", row_group_size=300)
    write_time_major(TRACKS, folder / "parcels.parquet")
    write_parcels_zarr(TRACKS, folder / "parcels.zarr")
    mixed = np.random.default_rng(1).permutation(len(TRACKS.ids))
    order = np.concatenate([np.flatnonzero(TRACKS.trajectory_index == i) for i in mixed])
    # Neighbours take turns, so that no trajectory lies in one stretch.
    order = np.concatenate([order[0::2], order[1::2]])
    order = order[np.argsort(TRACKS.times[order], kind="stable")]
    text = table_of(TRACKS, order=order).to_pandas()
    text["id"] = "drifter " + text["id"].astype(str)
    text.to_csv(folder / "mixed.csv", index=False)
    foreign = to_dataset(TRACKS)
    foreign.attrs = {}
    foreign.to_zarr(folder / "ragged.zarr", consolidated=False)
    return folder


@pytest.fixture
def _knows_ragged_zarr(monkeypatch):
    formats = (RAGGED_ZARR, *known_formats.FORMATS)
    monkeypatch.setattr(known_formats, "FORMATS", formats)
    monkeypatch.setitem(READERS, "ragged", READERS["zarr"])


NAMES = (
    *("tracks.nc", "tracks.csv", "tracks.csv.gz", "mixed.csv", "sorted.parquet"),
    *("parcels.parquet", "parcels.zarr", "ragged.zarr"),
)


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("_knows_ragged_zarr")
@pytest.mark.parametrize("block_points", [150, 700, 10**6])
@pytest.mark.parametrize("name", NAMES)
def test_blocks_hold_every_trajectory_once_and_whole(files, name, block_points):
    found = []
    with plan_blocks(files / name, block_points=block_points) as plan:
        for block in plan.blocks:
            part = read_block(block)
            for i in range(part.n_trajectories):
                rows = slice(part.starts[i], part.starts[i + 1])
                found.append((part.times[rows], part.positions[rows]))
        assert len(plan.blocks) > 1 or block_points == 10**6
        assert read_block(plan.pilot).n_trajectories >= 1
        temporary = [b.path for b in plan.blocks if b.path.parent != files.resolve()]
    assert not any(path.exists() for path in temporary)
    expected = read_trajectories(files / name)
    assert len(found) == expected.n_trajectories
    wanted = [
        (expected.times[a:b], expected.positions[a:b])
        for a, b in zip(expected.starts[:-1], expected.starts[1:], strict=True)
    ]
    key = lambda one: (one[0][0], len(one[0]), np.nansum(one[1]))  # noqa: E731
    for (t, x), (times, positions) in zip(
        sorted(found, key=key), sorted(wanted, key=key), strict=True
    ):
        assert_array_equal(t, times)
        assert_array_equal(x, positions)


@pytest.fixture(scope="module")
def ordinary():
    hypotheses = make_hypotheses(["brownian", "langevin"], TRACKS).hypotheses
    return scan_hypotheses(TRACKS, hypotheses, TAUS)


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("_knows_ragged_zarr")
@pytest.mark.parametrize("name", NAMES)
def test_the_scan_is_that_of_the_whole_file(files, name, ordinary):
    options = {"block_points": 500, "workers": Workers(threads=2)}
    tally, _ = tally_file(files / name, PLAIN, TAUS, **options)
    hypotheses = make_hypotheses(["brownian", "langevin"], tally.sample()).hypotheses
    streamed = scan_tally(tally, hypotheses)
    assert tally.n_trajectories == TRACKS.n_trajectories
    for found, expected in zip(streamed.comparisons, ordinary.comparisons, strict=True):
        for field in ("n_particles", "n_steps", "n_displacements", "n_dim"):
            assert getattr(found, field) == getattr(expected, field)
        assert_allclose(found.tau, expected.tau, rtol=1e-14)
        for model, evidence in expected.evidences.items():
            got = found.evidences[model].log_evidence
            assert_allclose(got, evidence.log_evidence, rtol=1e-9)


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("_knows_ragged_zarr")
@pytest.mark.parametrize("name", NAMES)
def test_sums_are_the_same_to_the_last_bit_for_all_workers_and_to_rounding_for_all_blocks(
    files, name
):
    def sums(block_points, threads):
        tally, _ = tally_file(
            files / name,
            models("langevin", "langevin+mean"),
            TAUS,
            block_points=block_points,
            workers=Workers(threads=threads),
        )
        many, _ = tally.displacements()
        prior = make_hypotheses(["langevin"], tally.sample()).note
        leaves = [leaf for one in many for leaf in (one.channels[32].forms, one.summed[32].forms)]
        return leaves, [(one.fingerprint, one.tau) for one in many], prior

    whole, parts = sums(10**6, 1), sums(150, 1)
    found = sums(150, 3)
    assert found[1:] == parts[1:]
    for a, b in zip(found[0], parts[0], strict=True):
        assert_array_equal(a, b)
    assert parts[1:] == whole[1:]
    for a, b in zip(parts[0], whole[0], strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-14 * np.abs(b).max())


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "cut", [{}, {"n_tau": 3}, {"n_tau": 3, "windows": "all"}, {"n_tau": 40, "windows": "all"}]
)
@pytest.mark.parametrize("name", ["langevin+mean", "langevin", "fractional"])
def test_models_find_the_moments_that_displacements_would_give(files, name, cut):
    taus = (0.1, 0.4, 5.0)
    model = model_named(name, MODELS, 2)
    tally, _ = tally_file(
        files / "tracks.nc", models(name), taus, sample_points=0, block_points=500, **cut
    )
    many, skipped = tally.displacements()
    assert len(many) + len(skipped) == 3
    for data in many:
        found = sum_moments(data, model)
        expected = sum_moments(displacements(TRACKS, data.tau, **cut), model)
        assert type(found) is type(expected)
        for field in ("orders", "paired", "predicted"):
            assert_array_equal(getattr(found, field), getattr(expected, field))
        scale = np.abs(expected.forms).max()
        assert_allclose(found.forms, expected.forms, rtol=1e-12, atol=1e-14 * scale)
    for tau, why in skipped.items():
        with pytest.raises(DriftbayesError, match=re.escape(why)):
            displacements(TRACKS, tau, **cut)


def with_odd_intervals(n_odd, first=0):
    """Ragged tracks; the last fix of some comes early."""
    times = TRACKS.times.copy()
    times[(TRACKS.starts[1:] - 1)[first : first + n_odd]] -= 0.025
    return replace(TRACKS, times=times)


@pytest.mark.parametrize("first", [0, 12])
def test_a_few_odd_intervals_are_gaps_in_blocks_as_in_memory(tmp_path, first):
    tracks = with_odd_intervals(5, first)
    assert tracks.n_strays == 5
    assert_allclose(tracks.recording_interval, 0.1)
    write_trajectories(tracks, tmp_path / "odd.nc")
    tally, _ = tally_file(tmp_path / "odd.nc", PLAIN, TAUS, block_points=150)
    assert tally.stray_note == tracks.stray_note
    many, skipped = tally.displacements()
    expected = scan_hypotheses(tracks, make_hypotheses(["brownian"], tracks).hypotheses, TAUS)
    assert list(skipped.values()) == list(expected.skipped.values())
    assert_allclose([one.tau for one in many], expected.taus, rtol=1e-12)
    for data in many:
        found = sum_moments(data, model_named("langevin", MODELS, 2))
        own = displacements(tracks, data.tau)
        assert data.n_displacements == own.n_displacements
        wanted = sum_moments(own, model_named("langevin", MODELS, 2))
        scale = np.abs(wanted.forms).max()
        assert_allclose(found.forms, wanted.forms, rtol=1e-12, atol=1e-14 * scale)


def test_odd_intervals_of_the_first_trajectories_do_not_hide_the_usual_one(tmp_path):
    rng = np.random.default_rng(0)
    # 3 odd intervals of 40 in the first trajectory, none among 2,000 others.
    short = np.cumsum(np.where(np.arange(40) % 15 == 7, 1.0, 2.0))
    long = 2.0 * np.arange(100.0)
    tracks = Trajectories.from_arrays(
        [rng.normal(size=(len(t), 2)).cumsum(axis=0) for t in [short, *[long] * 20]],
        times=[short, *[long] * 20],
    )
    assert tracks.recording_interval == 2.0
    write_trajectories(tracks, tmp_path / "first.csv")
    tally, _ = tally_file(tmp_path / "first.csv", PLAIN, [2.0, 6.0], block_points=40)
    assert tally.recording_interval == 2.0
    assert tally.stray_note == tracks.stray_note
    for data in tally.displacements()[0]:
        assert data.n_displacements == displacements(tracks, data.tau).n_displacements


def test_a_file_that_turns_irregular_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    stamps = [np.arange(50.0), np.cumsum(rng.uniform(0.5, 1.5, 50)), *[np.arange(50.0)] * 3]
    tracks = Trajectories.from_arrays(
        [rng.normal(size=(50, 2)).cumsum(axis=0) for _ in stamps], times=stamps
    )
    write_trajectories(tracks, tmp_path / "late.csv")
    with pytest.raises(DriftbayesError, match="49 of 245 intervals are not multiples of the"):
        tally_file(tmp_path / "late.csv", PLAIN, [1.0], block_points=50)


def spec(**changes):
    return replace(TallySpec((1, 3), 0.1, ((32, False),)), **changes)


def test_what_needs_the_steps_themselves_is_refused(files):
    noisy = replace(TRACKS, position_sd=np.ones(len(TRACKS.times)))
    with pytest.raises(DriftbayesError, match="measurement errors need the single steps"):
        tally_of(noisy, spec())
    with pytest.raises(DriftbayesError, match="use --gaps split"):
        tally_file(files / "tracks.nc", PLAIN, TAUS, gaps="keep")
    with pytest.raises(DriftbayesError, match="has a density for each trajectory separately"):
        tally_file(files / "tracks.nc", models("langevin+scatter"), TAUS)


def test_runs_beyond_the_longest_memory_are_refused(files):
    name = "langevin+noise"
    tally, _ = tally_file(files / "tracks.nc", models(name), (0.1,), sample_points=0)
    (data,), _ = tally.displacements()
    assert 32 < data.n_steps < max(LENGTHS)
    preparation(data, model_named(name, MODELS, 2))
    longer = replace(data, n_steps=300)
    with pytest.raises(DriftbayesError, match="pass --n-tau 256 or less"):
        preparation(longer, model_named(name, MODELS, 2))


def test_times_off_the_grid_of_the_first_trajectories_are_refused():
    times = TRACKS.times.copy()
    times[TRACKS.trajectory_index == TRACKS.n_trajectories - 1] *= 1.0015
    with pytest.raises(DriftbayesError, match=r"times are irregular: one is [\d.]+ ms away"):
        tally_of(replace(TRACKS, times=times), spec())


def test_a_sample_of_a_large_file_does_not_depend_on_its_blocks():
    tracks = ragged_tracks(n_copies=40)
    part = spec(sampled=0.2)
    whole = tally_of(tracks, part)
    half = tracks.trajectory_index < 100
    merged = tally_of(tracks.select(~half), part).merge(tally_of(tracks.select(half), part))
    assert whole.fingerprint == merged.fingerprint
    assert whole.sample().fingerprint == merged.sample().fingerprint
    assert 0.1 < len(whole.sample().row_sizes) / tracks.n_trajectories < 0.3
    few = spec(sampled=1e-9)
    assert tally_of(tracks, few).sample().n_trajectories == 1


def test_a_trajectory_that_never_moves_counts():
    still = np.where(TRACKS.trajectory_index[:, None] == 3, 0.0, TRACKS.positions)
    tracks = replace(TRACKS, positions=still)
    hypotheses = make_hypotheses(["brownian"], TRACKS).hypotheses
    expected = scan_hypotheses(tracks, hypotheses, (0.1,))
    found = scan_tally(tally_of(tracks, spec(strides=(1,))), hypotheses)
    for a, b in zip(found.comparisons, expected.comparisons, strict=True):
        assert a.n_displacements == b.n_displacements
        assert_allclose(
            a.evidences["brownian"].log_evidence, b.evidences["brownian"].log_evidence, rtol=1e-9
        )


def test_a_column_of_ids_that_is_not_known_by_name_must_be_told(tmp_path):
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"who": [1, 2], "time": [0.0, 0.0], "x": [0.0, 1.0]}), path)
    blocks = db.read(path, blocks=db.Blocks())
    with pytest.raises(DriftbayesError, match=r"known name for ids.* pass columns={'id': 'who'}"):
        db.compare(blocks, 1.0)


@pytest.mark.parametrize("workers", [Workers(threads=2), Workers(processes=2)])
def test_what_would_not_fit_into_memory_is_refused_before_it_starts(tmp_path, monkeypatch, workers):
    write_time_major(ragged_tracks(), tmp_path / "tracks.parquet")
    monkeypatch.setattr(Workers, "reduce", lambda *_: pytest.fail("it has started"))
    monkeypatch.setenv("DRIFTBAYES_READ_MEMORY", "100KB")
    message = r"2 workers with blocks of up to \d+ points .* would take about \d+ [KM]B of"
    with pytest.raises(DriftbayesError, match=message) as caught:
        tally_file(
            *(tmp_path / "tracks.parquet", PLAIN, (0.1,)),
            block_points=500,
            workers=workers,
        )
    # What it asks for is enough.
    monkeypatch.undo()
    monkeypatch.setenv("DRIFTBAYES_READ_MEMORY", str(caught.value).rpartition("=")[2])
    tally_file(
        *(tmp_path / "tracks.parquet", PLAIN, (0.1,)),
        block_points=500,
        workers=Workers(threads=2),
    )


def test_a_long_memory_with_axes_apart_takes_more_than_the_points():
    blocks = [Block(Path("x"), ReadOptions(format="table"), 1000)]
    large = TallySpec(strides=tuple(range(1, 21)), dt=1.0, memories=((256, True),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRIFTBAYES_READ_MEMORY", "1GB")
        with pytest.raises(DriftbayesError, match="and sums of 378 MB would take about 2 GB"):
            check_fits(blocks, large, 2, Workers(threads=1))
        # Threads that nobody asked for are as many as fit.
        many = [Block(Path("x"), ReadOptions(format="table"), 10**6)] * 50
        small = TallySpec(strides=(1,), dt=1.0, memories=((32, False),))
        patch.setattr("os.cpu_count", lambda: 40)
        assert check_fits(many, small, 2, Workers()).threads == 6
        with pytest.raises(DriftbayesError, match="40 workers with blocks of up to 1,000,000"):
            check_fits(many, small, 2, Workers(threads=40))
        # Workers of a cluster have memories of their own; here is only the total.
        patch.setenv("DRIFTBAYES_READ_MEMORY", "400MB")
        check_fits(blocks, large, 2, Workers(cluster="tls://10.0.0.1:8786"))


def test_workers_are_a_number_or_a_cluster():
    with pytest.raises(DriftbayesError, match="not both"):
        Workers(processes=2, cluster="tcp://127.0.0.1:1")
    with pytest.raises(DriftbayesError, match="expected 1 worker or more, got 0"):
        Workers(processes=0)
