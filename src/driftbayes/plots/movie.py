"""Render a movie of vorticity and particles."""

__all__ = ["default_path", "write_movie"]

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._storage import atomic_path
from driftbayes._storage.zarr import is_group, open_array
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.plots.style import RC
from driftbayes.turbulence.output import SNAPSHOTS, TRAJECTORIES, read_config

if TYPE_CHECKING:
    from matplotlib.animation import AbstractMovieWriter

_PIXELS = 720


def write_movie(
    directory: str | Path,
    output: str | Path | None = None,
    *,
    n_particles: int = 200,
    fps: float = 12.0,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a movie of a run so far, one frame per snapshot.

    Args:
        directory: Directory of the run.
        output: File with the suffix .mp4 or .gif; by default `movie.mp4` in the directory, or
            `movie.gif` where ffmpeg is not installed.
        n_particles: Number of particles drawn.
        fps: Frames per second.
        progress: Called with the number of frames done and the total.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    folder = Path(directory)
    read_config(folder)  # raises an error if the directory is not a run
    target = _target(folder, output)
    if not is_group(folder / SNAPSHOTS):
        raise DriftbayesError(f"{str(folder)!r} has no snapshots; run again with --snapshot-every")
    vorticity = open_array(folder / SNAPSHOTS, "vorticity")
    times = open_array(folder / SNAPSHOTS, "time").read()
    frames = [i for i in range(len(times)) if vorticity.is_written((i, 0, 0))]
    if not frames:
        raise DriftbayesError(f"{str(folder)!r} has no snapshots yet; resume the run first")
    particles = _particles(folder, n_particles)
    # One colour scale for the whole movie, from its last frame, where vortices are strong.
    last = vorticity.read_chunk((frames[-1], 0, 0))[0]
    limit = max(float(np.quantile(np.abs(last), 0.995)), 1e-12)
    with mpl.rc_context(RC):
        figure = Figure(figsize=(_PIXELS / 100, _PIXELS / 100), dpi=100)
        ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set_axis_off()
        side = 2 * np.pi
        image = ax.imshow(
            last,
            origin="lower",
            extent=(0, side, 0, side),
            cmap="RdBu_r",
            vmin=-limit,
            vmax=limit,
            interpolation="bilinear",
        )
        (dots,) = ax.plot([], [], "o", color="black", markersize=2.5)
        label = ax.text(
            *(0.02, 0.97),
            "",
            transform=ax.transAxes,
            va="top",
            bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none"},
        )
        writer = _writer(target, fps)
        with atomic_path(target) as temporary, writer.saving(figure, str(temporary), 100):
            for done, frame in enumerate(frames):
                image.set_data(vorticity.read_chunk((frame, 0, 0))[0])
                x = particles(float(times[frame])) % side
                dots.set_data(x[:, 0], x[:, 1])
                label.set_text(f"t = {times[frame]:.4g}")
                writer.grab_frame()
                if progress is not None:
                    progress(done + 1, len(frames))
    return target


def default_path(folder: Path) -> Path:
    """Return the default path of the movie of a run."""
    return folder / ("movie.gif" if shutil.which("ffmpeg") is None else "movie.mp4")


def _target(folder: Path, output: str | Path | None) -> Path:
    target = default_path(folder) if output is None else Path(output)
    if target.suffix.lower() not in (".mp4", ".gif"):
        raise DriftbayesError(f"the movie's suffix must be .mp4 or .gif, got {target.name!r}")
    if target.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        msg = "an MP4 movie needs ffmpeg, which is not installed; choose a name ending in .gif"
        raise DriftbayesError(msg)
    return target


def _writer(target: Path, fps: float) -> "AbstractMovieWriter":
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if target.suffix.lower() == ".gif":
        return PillowWriter(fps=fps)  # type: ignore[arg-type]
    # All players support this pixel format.
    return FFMpegWriter(fps=fps, extra_args=["-pix_fmt", "yuv420p"])  # type: ignore[arg-type]


def _particles(folder: Path, n_particles: int) -> Callable[[float], FloatArray]:
    """Return a function from time to positions, which are empty before release."""
    store = folder / TRAJECTORIES
    no_positions = np.zeros((0, 2))
    if not n_particles or not is_group(store):
        return lambda time: no_positions
    times = open_array(store, "time").read()
    arrays: list[Any] = [open_array(store, name) for name in ("x", "y")]
    n = min(n_particles, arrays[0].shape[0], arrays[0].chunks[0])
    held: dict[int, FloatArray] = {}

    def at(time: float) -> FloatArray:
        record = int(np.searchsorted(times, time - 1e-9))
        chunk = record // arrays[0].chunks[1]
        corner = (0, chunk * arrays[0].chunks[1])
        if record >= len(times) or time < times[0] - 1e-9 or not arrays[1].is_written(corner):
            return no_positions
        if chunk not in held:
            held.clear()
            held[chunk] = np.stack([array.read_chunk(corner)[:n] for array in arrays], axis=-1)
        return np.asarray(held[chunk][:, record - corner[1]])

    return at
