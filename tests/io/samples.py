"""One small valid file of each format that is kept in one file, and the options to read it with."""

import io
import os
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from driftbayes.data._trajectories import Trajectories
from driftbayes.io import write_trajectories

TRACKMATE_TRACKS = b"""<?xml version="1.0" encoding="UTF-8"?>
<Tracks nTracks="2" spaceUnits="micron" frameInterval="0.5" timeUnits="sec">
  <particle nSpots="2">
    <detection t="0" x="1.0" y="2.0" z="0.0" />
    <detection t="1" x="3.0" y="4.0" z="0.0" />
  </particle>
  <particle nSpots="1"><detection t="4" x="9" y="9" z="0.0"/></particle>
</Tracks>
"""
TRACKMATE_XML = b"""<?xml version="1.0"?><TrackMate version="7"><Model spatialunits="pixel"
timeunits="sec"><AllSpots nspots="4"><SpotsInFrame frame="0">
<Spot ID="1" POSITION_X="1" POSITION_Y="1" POSITION_Z="0" POSITION_T="0" FRAME="0"/>
<Spot ID="2" POSITION_X="2" POSITION_Y="1" POSITION_Z="0" POSITION_T="1" FRAME="1"/>
<Spot ID="3" POSITION_X="3" POSITION_Y="2" POSITION_Z="0" POSITION_T="2" FRAME="2"/>
<Spot ID="4" POSITION_X="1" POSITION_Y="2" POSITION_Z="0" POSITION_T="2" FRAME="2"/>
</SpotsInFrame></AllSpots><AllTracks><Track TRACK_ID="0">
<Edge SPOT_SOURCE_ID="1" SPOT_TARGET_ID="2"/><Edge SPOT_SOURCE_ID="2" SPOT_TARGET_ID="3"/>
<Edge SPOT_SOURCE_ID="2" SPOT_TARGET_ID="4"/></Track></AllTracks>
<FilteredTracks><TrackID TRACK_ID="0"/></FilteredTracks></Model></TrackMate>
"""
TEXTS = {
    "table": b"id,time,x,y,sd\na,0,1,2,.1\na,1,2,3,.1\nb,0,5,6,.2\nb,1,6,7,.2\n",
    "trackpy": b"particle,frame,x,y,ep\n4,0,1,2,.1\n7,0,5,6,.2\n4,1,2,3,.1\n7,1,6,7,nan\n",
    "saspt": (
        b"region,trajectory,frame,x_px,y_px,x_err_px,y_err_px,error_flag\n"
        b"0,5,0,1,1,.3,.4,0\n1,5,0,2,2,.3,.4,1\n0,5,1,3,3,.3,.4,0\n"
    ),
    "andi": b"traj_idx,frame,x,y\n0.0,0.0,1,2\n0.0,1.0,2,3\n1.0,0.0,1,1\n",
    "sfi": b"# dt: 0.25\nparticle_id,time_step,x0,x1\n0,0,1,2\n0,1,3,4\n",
    "evalspt": b"x\ty\tt\tid\n1\t2\t0\t3\n2\t3\t0.5\t3\n",
    "trackmate-csv": (
        b"LABEL,ID,TRACK_ID,POSITION_X,POSITION_Y,POSITION_Z,POSITION_T,FRAME\n"
        b"Label,Spot ID,Track ID,X,Y,Z,T,Frame\n,,,(micron),(micron),(micron),(sec),\n"
        b"a,1,0,1.5,2.5,0.0,0.1,1\nb,2,0,1.0,2.0,0.0,0.0,0\nc,3,,8.0,8.0,0.0,0.0,0\n"
    ),
    "trackmate-tracks": TRACKMATE_TRACKS,
    "trackmate-xml": TRACKMATE_XML,
    "myptv": b"0\t1\t2\t3\t7\t8\t0.1\t0\n0\t2\t3\t4\t7\t8\t0.1\t1\n-1\t9\t9\t9\t7\t8\t0.1\t0\n",
    "myptv-smoothed": b"0\t1\t2\t3\t0\t0\t0\t0\t0\t0\t0\n0\t2\t3\t4\t0\t0\t0\t0\t0\t0\t1\n",
    "gdp-text": (
        b" 44000  2005-01-02 00:00:00  26.0  -88.0  9.9  0.1  0.2  0.3  1e-4 1e-4 1e-4\n"
        b" 44000  2005-01-02 06:00:00  26.1  -88.0  9.9  0.1  0.2  0.3  1e-4 1e-4 1e-4\n"
    ),
}
# Formats that are not to be found by content.
BY_NAME = ("myptv", "myptv-smoothed")


def numpy_bytes(**arrays):
    """The bytes of an .npz file."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def parcels_bytes():
    """A table as Parcels 4 writes it, on a flat mesh."""
    table = pa.table(
        {
            "t": np.array([0.0, 0.0, 60.0, 60.0]),
            "z": np.zeros(4, np.float32),
            "y": np.array([0, 1, 2, 3], np.float32),
            "x": np.array([0, 1, 2, 3], np.float32),
            "particle_id": np.array([0, 1, 0, 1]),
        }
    )
    stream = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"parcels_grid_mesh": "flat"}), stream)
    return stream.getvalue()


def samples(folder):
    """The bytes of a file of each format, by name; `folder` is for those that need a file."""
    found = dict(TEXTS)
    x = np.arange(12.0).reshape(2, 3, 2)
    found["numpy"] = numpy_bytes(x=x, t=np.arange(3.0))
    found["parcels-parquet"] = parcels_bytes()
    write_trajectories(Trajectories.from_arrays(x, dt=1.0), folder / "a.nc")
    found["netcdf"] = (folder / "a.nc").read_bytes()
    return found


def zipped(members):
    """The bytes of an archive, uncompressed, so that damage reaches what is in it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def tries(n):
    """Number of damaged files that a test tries: a third of n, but all for the slow tests.

    `make fuzz` damages files of the same kinds in the same ways by the thousand.
    """
    return n if "DRIFTBAYES_EXAMPLES" in os.environ else n // 3
