"""What a user may say about how to read a file, and what a format is."""

__all__ = ["Format", "ReadOptions"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from driftbayes.data.sphere import Frame
from driftbayes.data.units import length_factor, time_factor
from driftbayes.io.contents import Contents

if TYPE_CHECKING:
    import xarray as xr

    from driftbayes.data.trajectories import Trajectories


@dataclass(frozen=True)
class ReadOptions:
    """What a user may say about how to read a file.

    Args:
        columns: Names in the file of canonical columns, where they differ.
        length_unit: Name of the unit of positions, if not that in the file; nothing is converted.
        time_unit: Name of the unit of times, likewise.
        coordinates: Whether positions are "degrees" of longitude and latitude or on a "plane", if
            not as the file or its format has it.
        frame: Axes for longitudes and latitudes; see `driftbayes.data.sphere.on_plane`.
        pixel_size: Length of a pixel and its unit, for positions in pixels.
        frame_interval: Time between frames and its unit, for times in frames.
        missing: Numbers that stand for a missing position or time; none of them if empty. None
            leaves it to what the file declares.
    """

    columns: Mapping[str, str | None] | None = None
    length_unit: str | None = None
    time_unit: str | None = None
    coordinates: Literal["degrees", "plane"] | None = None
    frame: Frame = "auto"
    pixel_size: tuple[float, str] | None = None
    frame_interval: tuple[float, str] | None = None
    missing: tuple[float, ...] | None = None

    def scale(self, trajectories: "Trajectories") -> "Trajectories":
        """Positions in pixels as lengths, and times in frames as times, where sizes are given."""
        if self.pixel_size is not None:
            size, unit = self.pixel_size
            trajectories = trajectories.in_units(length=(size, length_factor(unit, unit)[1]))
        if self.frame_interval is not None:
            size, unit = self.frame_interval
            trajectories = trajectories.in_units(time=(size, time_factor(unit, unit)[1]))
        return trajectories


@dataclass(frozen=True)
class Format:
    """One source of trajectories.

    A format kept in a dataset gives `convert`, which sees a dataset of some or all trajectories and
    reads what it needs of it; one kept otherwise gives `read`.

    Args:
        name: As `--format` has it.
        summary: What it is, in a few words.
        detect: Whether contents are of this format.
        read: From a file to trajectories.
        convert: From a dataset to trajectories.
        reads_rows: Whether `read` heeds `Contents.rows`.
    """

    name: str
    summary: str
    detect: Callable[[Contents], bool]
    read: "Callable[[Contents, ReadOptions], Trajectories] | None" = None
    convert: "Callable[[xr.Dataset, Contents, ReadOptions], Trajectories] | None" = None
    reads_rows: bool = False
