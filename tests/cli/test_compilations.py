"""A second file of another size must not wait for the compiler."""

import re

import jax
import numpy as np
import pytest

from driftbayes.data._trajectories import Trajectories
from driftbayes.io import write_trajectories

_COMPILED = "/jax/core/compile/backend_compile_duration"
_MODELS = ("--models", "brownian,langevin,langevin+noise")


@pytest.fixture(scope="module")
def compiled():
    """Names of the programs that were compiled; cleared by who reads it."""
    names = []

    def listen(event, _seconds, **about):
        if event == _COMPILED:
            names.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


def _tracks(path, sizes, seed):
    """Noisy Langevin tracks of these lengths."""
    rng = np.random.default_rng(seed)
    tracks = []
    for size in sizes:
        velocity = np.zeros((size, 2))
        kicks = rng.standard_normal((size, 2))
        for i in range(1, size):
            velocity[i] = 0.6 * velocity[i - 1] + 0.8 * kicks[i]
        tracks.append(np.cumsum(velocity, axis=0) + 0.3 * rng.standard_normal((size, 2)))
    write_trajectories(Trajectories.from_arrays(tracks, dt=1.0), path)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two files of other sizes: twelve equal tracks, and five of different lengths."""
    folder = tmp_path_factory.mktemp("tracks")
    return (
        _tracks(folder / "equal.csv", [40] * 12, 1),
        _tracks(folder / "ragged.csv", [25, 60, 31, 80, 44], 2),
    )


@pytest.mark.parametrize(
    ("command", "first", "second"),
    [
        ("compare", ("--tau", "1"), ("--tau", "2")),
        ("scan", ("--taus", "1,2"), ("--taus", "1,3,6")),
        pytest.param(
            *("report", ("--brief", "--taus", "1,2"), ("--brief", "--taus", "1,2,4,5")),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_second_file_of_another_size_compiles_nothing(
    ask, files, tmp_path, compiled, command, first, second
):
    def run(file, options):
        output = ("-o", tmp_path / f"{file.stem}.html") if command == "report" else ()
        compiled.clear()
        answer = ask(command, file, *options, *_MODELS, *output)
        assert answer.code == 0, answer.err
        return list(compiled)

    run(files[0], first)
    assert run(files[1], second) == []


def test_listener_hears_the_compiler(compiled):
    compiled.clear()
    jax.jit(lambda x: x * 3.25 + 1.5)(np.zeros(3)).block_until_ready()
    assert len(compiled) == 1


@pytest.mark.slow
def test_second_process_reads_every_program_from_the_cache(process, files):
    """What one command compiled, a later one on another file finds on disk."""
    options = ("--models", "brownian+noise", "-v")
    cache = {"DRIFTBAYES_CACHE": str(process.cache)}
    process("compare", files[0], "--tau", "1", *options, **cache)
    answer = process("compare", files[1], "--tau", "2", *options, **cache)
    assert answer.code == 0, answer.err
    found = re.search(r"compiled (\d+) programs in .* s, (\d+) of them from", answer.err)
    assert found, answer.err
    assert int(found[1]) > 0
    assert found[1] == found[2]
