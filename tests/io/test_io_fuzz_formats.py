"""Whatever is done to a file of any format: trajectories, or one sentence, and soon."""

import pickle
import signal
import tracemalloc
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import BY_NAME, TEXTS, numpy_bytes, samples, tries, zipped

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.io import FORMATS, read_trajectories

NAMES = (*TEXTS, "numpy", "parcels-parquet", "netcdf")
XML = ("trackmate-tracks", "trackmate-xml")
TABLES = tuple(name for name in TEXTS if name not in XML)
# A hang, not a slow machine: damaged files of a kilobyte take milliseconds.
_SECONDS = 30
_MOST_BYTES = 300 * 2**20
WORDS = st.sampled_from(
    [
        *(b"", b" ", b"-1", b"1e999", b"-1e308", b"nan", b"inf", b"1e-320", b"9" * 400, b"0x10"),
        *(b'"', b"'", b"\x00", b"\xff\xfe", b"\r", b"\n", b"\t", b";", b"#", b"<", b"&", b"&#0;"),
        *(b"2005-13-45", b"abc", b"1_000", b"\xd9\xa1", b"=1+1", b"__import__('os')", b"999999999"),
    ]
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


@pytest.fixture(scope="module")
def whole(scratch):
    found = samples(scratch)

    # Not the dictionary, which Hypothesis would print whole.
    def of(name):
        return found[name]

    return of


@contextmanager
def soon():
    """Break off what hangs."""

    def stop(*_):
        raise AssertionError(f"no answer in {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def read_or_refuse(path, data, name=None):
    """Trajectories, or None where they were refused in one sentence."""
    path.write_bytes(data)
    with soon(), warnings.catch_warnings():
        # Steps across the globe are warned of, which is right.
        warnings.simplefilter("ignore", DriftbayesWarning)
        try:
            found = read_trajectories(path, format=name)
        except DriftbayesError as error:
            message = str(error)
            assert message.strip()
            assert "\n" not in message
            assert len(message) < 600
            return None
    assert isinstance(found, Trajectories)
    return found


def forced(name):
    return name if name in BY_NAME else None


def test_every_format_of_one_file_has_a_sample():
    known = {one.name for one in FORMATS}
    assert set(NAMES) <= known


@pytest.mark.parametrize("name", NAMES)
def test_the_samples_are_read_and_known_by_their_content(scratch, whole, name):
    from driftbayes.io._formats import choose, contents_of

    assert read_or_refuse(scratch / "sample", whole(name), forced(name)) is not None
    if name not in BY_NAME:
        assert choose(contents_of(scratch / "sample")).name == name


@pytest.mark.parametrize("name", NAMES)
def test_a_file_read_as_any_other_format_is_read_or_refused(scratch, whole, name):
    for one in FORMATS:
        read_or_refuse(scratch / "sample", whole(name), one.name)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=tries(20))
@given(cut=st.floats(0, 1))
def test_cut_short(scratch, whole, name, cut):
    data = whole(name)
    read_or_refuse(scratch / "cut", data[: int(cut * len(data))], forced(name))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=tries(30))
@given(
    places=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4
    )
)
def test_bits_flipped(scratch, whole, name, places):
    data = bytearray(whole(name))
    for place, bits in places:
        data[int(place * len(data))] ^= bits
    read_or_refuse(scratch / "flipped", bytes(data), forced(name))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=tries(30))
@given(place=st.floats(0, 1), end=st.floats(0, 1), word=WORDS, times=st.sampled_from([1, 2, 500]))
def test_a_stretch_replaced(scratch, whole, name, place, end, word, times):
    data = whole(name)
    start = int(place * len(data))
    stop = start + int(end * 12)
    read_or_refuse(scratch / "mixed", data[:start] + word * times + data[stop:], forced(name))


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=tries(25))
@given(data=st.data())
def test_columns_swapped_and_cells_replaced(scratch, name, data):
    separator = b"\t" if b"\t" in TEXTS[name] else b"," if b"," in TEXTS[name] else None
    rows = [line.split(separator) for line in TEXTS[name].splitlines()]
    width = min(map(len, rows))
    one, other = (data.draw(st.integers(0, width - 1)) for _ in "ab")
    for row in rows:
        row[one], row[other] = row[other], row[one]
    for _ in range(data.draw(st.integers(0, 2))):
        row = data.draw(st.sampled_from(rows))
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(WORDS)
    text = b"\n".join((separator or b" ").join(row) for row in rows)
    read_or_refuse(scratch / "swapped", text + b"\n", forced(name))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("header", [b"", b",,,,\n", b"\n\n", b"#\n", b"x\n", b"\xef\xbb\xbf\n"])
def test_a_header_blanked(scratch, name, header):
    body = TEXTS[name].partition(b"\n")[2]
    read_or_refuse(scratch / "headless", header + body, forced(name))
    read_or_refuse(scratch / "headless", header + body, name)


@pytest.mark.parametrize("name", XML)
@settings(max_examples=tries(25))
@given(data=st.data())
def test_attributes_replaced(scratch, name, data):
    parts = TEXTS[name].split(b'"')
    for _ in range(data.draw(st.integers(1, 3))):
        place = 2 * data.draw(st.integers(0, len(parts) // 2 - 1)) + 1
        parts[place] = data.draw(WORDS)
    read_or_refuse(scratch / "attributes", b'"'.join(parts))


@pytest.mark.parametrize("name", XML)
def test_xml_that_means_harm(scratch, name):
    text = TEXTS[name]
    head, _, body = text.partition(b"?>")
    levels = b"".join(b'<!ENTITY l%d "%s">' % (i, b"&l%d;" % (i - 1) * 10) for i in range(1, 40))
    for declaration in (
        b'<!DOCTYPE a [<!ENTITY l0 "lol">' + levels + b"]>",
        b'<!DOCTYPE a SYSTEM "file:///dev/zero">',
        b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1:1/x"> %x;]>',
        b'<!DOCTYPE a [<!ATTLIST detection x CDATA "1">]>',
    ):
        assert read_or_refuse(scratch / "harm.xml", head + b"?>" + declaration + body) is None
    assert (
        read_or_refuse(scratch / "deep.xml", text.replace(b"</", b"<a>" * 100_000 + b"</")) is None
    )
    wide = text.replace(b"<Track", b"<Track " + b" ".join(b'a%d="1"' % i for i in range(50_000)), 1)
    read_or_refuse(scratch / "wide.xml", wide)
    for encoding in (b"utf-16", b"utf-7", b"rot13", b"idna", b"zip", b"x" * 5000):
        read_or_refuse(
            scratch / "odd.xml", b'<?xml version="1.0" encoding="' + encoding + b'"?>' + body
        )


def npy(descr, shape, data=bytes(64)):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(118 - len(header) % 16) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


@pytest.mark.parametrize(
    "shape", ["(99999999999, 9, 2)", "(2, 2, 2**40)", "(2**70,)", "(-1, 3, 2)"]
)
@pytest.mark.parametrize("descr", ["'<f8'", "'<U2000000000'", "'|O'", "[('a', '<f8')]", "'<m8[s]'"])
def test_sizes_that_are_only_declared_take_no_memory(scratch, shape, descr):
    member = npy(descr, shape)
    tracemalloc.start()
    try:
        read_or_refuse(scratch / "big.npy", member)
        read_or_refuse(scratch / "big.npz", zipped({"x.npy": member, "t.npy": member}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < _MOST_BYTES


@settings(max_examples=tries(30))
@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_headers_of_arrays_with_bits_flipped(scratch, place, bits):
    member = bytearray(npy("'<f8'", "(2, 2, 2)"))
    member[int(place * len(member))] ^= bits
    read_or_refuse(scratch / "flipped.npz", zipped({"x.npy": bytes(member)}))
    read_or_refuse(scratch / "flipped.npy", bytes(member))


RAN = []


class Harm:
    def __reduce__(self):
        return (RAN.append, ("code was run",))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".pkl", ".nc"])
def test_nothing_is_unpickled(scratch, suffix):
    code = pickle.dumps(Harm())
    member = npy("'|O'", "(1,)", code)
    for data in (
        code,
        member,
        zipped({"x.npy": member}),
        zipped({"x.npy": code, "data.pkl": code}),
    ):
        assert read_or_refuse(scratch / f"harm{suffix}", data) is None
    assert RAN == []


def test_an_archive_may_not_lie_about_its_members(scratch, whole):
    good = numpy_bytes(x=np.zeros((2, 3, 2)), t=np.arange(3.0))
    for place in range(0, len(good), 3):
        data = bytearray(good)
        data[place : place + 4] = b"\xff\xff\xff\x7f"
        read_or_refuse(scratch / "lie.npz", bytes(data))
