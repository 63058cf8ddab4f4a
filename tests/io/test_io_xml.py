"""TrackMate's XML, and the harm that XML can do."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories

TRACKS = """<?xml version="1.0" encoding="UTF-8"?>
<Tracks nTracks="2" spaceUnits="micron" frameInterval="0.5" timeUnits="sec" from="TrackMate">
  <particle nSpots="3">
    <detection t="0" x="1.0" y="2.0" z="0.0" />
    <detection t="2" x="3.0" y="4.0" z="0.0" />
    <detection t="1" x="2.0" y="3.0" z="0.0" />
  </particle>
  <particle nSpots="1"><detection t="4" x="9" y="9" z="0.0"/></particle>
</Tracks>
"""


def full(edges, spots=6, filtered=None):
    shown = "" if filtered is None else "".join(f'<TrackID TRACK_ID="{t}"/>' for t in filtered)
    lines = [
        f'<SpotsInFrame frame="{i}"><Spot ID="{100 + i}" POSITION_X="{i}" POSITION_Y="{2 * i}" '
        f'POSITION_Z="0.0" POSITION_T="{0.5 * (i if i < 5 else 4)}" FRAME="{i}"/></SpotsInFrame>'
        for i in range(spots)
    ]
    tracks = {}
    for track, a, b in edges:
        tracks.setdefault(track, []).append(
            f'<Edge SPOT_SOURCE_ID="{100 + a}" SPOT_TARGET_ID="{100 + b}" LINK_COST="1"/>'
        )
    body = "".join(
        f'<Track name="t" TRACK_ID="{t}">{"".join(e)}</Track>' for t, e in tracks.items()
    )
    tail = "" if filtered is None else f"<FilteredTracks>{shown}</FilteredTracks>"
    return (
        '<?xml version="1.0"?><TrackMate version="7"><Log>x</Log>'
        f'<Model spatialunits="pixel" timeunits="sec"><AllSpots nspots="{spots}">{"".join(lines)}'
        f"</AllSpots><AllTracks>{body}</AllTracks>{tail}</Model></TrackMate>"
    )


@pytest.fixture
def read(tmp_path):
    def from_text(text, **options):
        (tmp_path / "a.xml").write_text(text)
        return read_trajectories(tmp_path / "a.xml", **options)

    return from_text


def test_times_of_the_simple_file_are_frames(read):
    found = read(TRACKS)
    assert (found.length_unit, found.time_unit, found.n_dim) == ("µm", "s", 2)
    assert found.ids.tolist() == [0, 1]
    assert_array_equal(found.times, [0, 0.5, 1.0, 2.0])
    assert_array_equal(found.positions[:, 0], [1, 2, 3, 9])
    told = read(TRACKS, frame_interval=(20.0, "ms"))
    assert told.time_unit == "ms"
    assert_allclose(told.times, [0, 20, 40, 80])


def test_xml_of_another_kind_is_refused(read):
    with pytest.raises(DriftbayesError, match="expected <TrackMate>"):
        read(TRACKS, format="trackmate-xml")


def test_edges_make_tracks_in_whatever_direction(read):
    found = read(full([(7, 0, 1), (7, 2, 1), (7, 2, 3)]))
    assert found.ids.tolist() == [7]
    assert (found.length_unit, found.time_unit) == ("px", "s")
    assert_array_equal(found.positions[:, 0], [0, 1, 2, 3])


def test_a_track_that_splits_is_cut_there(read):
    # 0 - 1 - 2, and from 2 both to 3 - 4 and to 5.
    found = read(full([(7, 0, 1), (7, 1, 2), (7, 2, 3), (7, 3, 4), (7, 2, 5)]))
    parts = [
        p.tolist()
        for p in (
            found.positions[i:j, 0] for i, j in zip(found.starts, found.starts[1:], strict=False)
        )
    ]
    assert parts == [[0, 1, 2], [3, 4], [5]]
    assert found.ids.tolist() == ["7/1", "7/2", "7/3"]
    notes = " ".join(found.provenance["notes"])
    assert "1 tracks split or merge; they are cut there into 3" in notes


def test_a_track_that_merges_is_cut_there(read):
    found = read(full([(7, 0, 2), (7, 1, 2), (7, 2, 3)]))
    assert sorted(found.row_sizes.tolist()) == [1, 1, 2]


def test_tracks_that_were_filtered_out_are_left_out(read):
    edges = [(1, 0, 1), (2, 2, 3)]
    found = read(full(edges, filtered=[2]))
    assert found.ids.tolist() == [2]
    assert "1 tracks were filtered out" in " ".join(found.provenance["notes"])
    with pytest.raises(DriftbayesError, match="all were filtered out"):
        read(full(edges, filtered=[9]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (full([(1, 0, 99)]), "edge to the missing spot 199"),
        (full([]), "has no tracks"),
        (full([(1, 4, 5)]), "track 1 links two spots at one time"),
        (full([(1, 0, 1)]).replace('ID="101"', 'ID="100"', 1), "two spots with the same ID"),
        (TRACKS.replace('x="2.0"', 'x="two"'), "<detection> has x='two', expected a number"),
        (TRACKS.replace('t="2"', 't="1"'), "duplicate times"),
        (TRACKS[:300], "cannot be read as XML"),
        ("<Tracks></Tracks>", "has no detections"),
        ("<?xml version='1.0'?><html/>", "unrecognised file format"),
        ("<?xml version='1.0'?>" + "<a>" * 5000, "unrecognised file format"),
        ("<Tracks>" + "<a>" * 5000, "nested more than 64 levels deep"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(read, text, message):
    with pytest.raises(DriftbayesError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_entities_are_refused_before_they_grow(read):
    levels = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 30))
    laughs = (
        f'<?xml version="1.0"?><!DOCTYPE Tracks [<!ENTITY l0 "lol">{levels}]><Tracks>&l29;</Tracks>'
    )
    with pytest.raises(DriftbayesError, match="document type declaration"):
        read(laughs)
    with pytest.raises(DriftbayesError, match="is a web page, expected trajectories"):
        read("<!DOCTYPE html>\n<html></html>")
    outside = '<!DOCTYPE Tracks [<!ENTITY e SYSTEM "file:///etc/passwd">]><Tracks>&e;</Tracks>'
    for text in (outside, '<?xml version="1.0"?>\n' + outside):
        with pytest.raises(DriftbayesError, match="document type declaration"):
            read(text)
