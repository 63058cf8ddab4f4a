"""Units: names to factors, and back to words."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import DriftbayesError
from driftbayes.data._units import (
    LENGTH,
    SPEED,
    TIME,
    Dimension,
    in_units,
    length_factor,
    parse_quantity,
    readable,
    readable_time,
    readable_unit,
    time_factor,
    times_in,
)


@pytest.mark.parametrize(
    ("found", "factor", "name"),
    [
        (length_factor("km"), 1000.0, "m"),
        (length_factor("micron", "nm"), 1000.0, "nm"),
        (length_factor("Meters", "km"), 1e-3, "km"),
        (time_factor("days"), 86400.0, "s"),
        (time_factor("s", "h"), 1 / 3600, "h"),
        (time_factor("us", "ms"), 1e-3, "ms"),
    ],
)
def test_factors_are_what_they_are(found, factor, name):
    assert_allclose(found[0], factor, rtol=1e-15)
    assert found[1] == name


def test_there_and_back_is_one():
    for one, other in (("nm", "km"), ("m", "cm")):
        assert_allclose(length_factor(one, other)[0] * length_factor(other, one)[0], 1)


@pytest.mark.parametrize("unit", ["furlong", "px", "", "MM", "KM"])
def test_what_is_not_known_is_refused(unit):
    with pytest.raises(DriftbayesError, match="is not a known unit of length; use one of nm, µm"):
        length_factor(unit)


def test_quantities_are_a_number_and_a_unit():
    assert parse_quantity("0.16um", "--pixel-size") == (0.16, "um")
    assert parse_quantity(" 7.5e-3 s ", "--frame-interval") == (0.0075, "s")
    for bad in ("um", "-1um", "0 um", "1", "nan um", "1e999um", "1.2.3um", ""):
        with pytest.raises(DriftbayesError, match="--pixel-size must be a positive number and"):
            parse_quantity(bad, "--pixel-size")


def test_times_are_said_in_the_unit_that_fits():
    assert readable_time(1800, "s") == "30 min"
    assert readable_time(7200, "s") == "2 h"
    assert readable_time(86400, "s") == "1 d"
    assert readable_time(224000, "s") == "2.593 d"
    assert readable_time(0.00748, "s") == "7.48 ms"
    assert readable_time(1e8, "s") == "1157 d"
    assert readable_time(864000, "s") == "10 d"
    assert readable_time(3.0, "frame") == "3 frame"
    assert readable_time(3.0, "") == "3"


# Quantities that users type


SI = ("m", "s")


@pytest.mark.parametrize(
    ("value", "what", "units", "expected"),
    [
        (6, TIME, SI, 6.0),
        (np.float32(0.5), TIME, SI, 0.5),
        ("6", TIME, ("", ""), 6.0),
        ("6h", TIME, SI, 21600.0),
        (" 1.5 d ", TIME, ("m", "h"), 36.0),
        ("50km", LENGTH, SI, 50000.0),
        ("0.16um", LENGTH, ("µm", "s"), 0.16),
        ("3.6km/h", SPEED, SI, 1.0),
        ("20 cm/s", SPEED, ("km", "d"), 17.28),
        ("1e3s", TIME, SI, 1000.0),
        ("0.5/d", Dimension("1/time", 0, -1, "1/s"), ("m", "d"), 0.5),
        ("0.5 1/d", Dimension("1/time", 0, -1, "1/s"), ("m", "h"), 0.5 / 24),
        ("7 km2/d", Dimension("length²/time", 2, -1, "1 m²/s"), ("m", "d"), 7e6),
        ("7 km^2/d", Dimension("length²/time", 2, -1, "1 m²/s"), ("m", "d"), 7e6),
        ("7 km²/d", Dimension("length²/time", 2, -1, "1 m²/s"), ("m", "d"), 7e6),
    ],
)
def test_quantities_are_converted_to_the_units_of_the_data(value, what, units, expected):
    assert_allclose(in_units(value, what, units, "it"), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("value", "what", "units", "message"),
    [
        ("6x", TIME, SI, "it: 'x' is not a known unit of time; use one of ns, µs, ms"),
        ("6km", TIME, SI, "it must be a time, for example 6h, got the unit 'km'"),
        ("6 m/s", LENGTH, SI, "it must be a length, for example 50km, got the unit 'm/s'"),
        ("6h", TIME, ("m", ""), "it has a unit, but the data have no unit of time: pass --time"),
        ("6h", TIME, ("px", "frame"), "but the data are in 'frame': pass frame_interval"),
        ("6h", TIME, ("m", "fortnight"), "'fortnight' is not a known unit of time"),
        ("a lot", LENGTH, SI, "it must be a number or a length with its unit, for example 50km"),
        ("", TIME, SI, "it must be a number or a time with its unit"),
        (True, TIME, SI, "it must be a number or a time with its unit, for example 6h, got True"),
        ([1, 2], TIME, SI, r"for example 6h, got list \[1, 2\]"),
        ("1e200s", TIME, SI, "of magnitude 1e-100"),
    ],
)
def test_other_quantities_are_refused(value, what, units, message):
    with pytest.raises(DriftbayesError, match=message):
        in_units(value, what, units, "it")


def test_times_are_one_several_or_a_range():
    assert times_in(5, SI, "taus") == [5.0]
    assert times_in(["1h", 60], SI, "taus") == [3600.0, 60.0]
    assert times_in("1h,1d", SI, "taus") == [3600.0, 86400.0]
    assert_allclose(times_in("1h:100h:3log", SI, "taus"), [3600.0, 36000.0, 360000.0])
    # Before the data are read, a number and a time with a unit cannot be compared.
    times_in("1h:7200:3", None, "taus")
    with pytest.raises(DriftbayesError, match="needs 0 < low <= high"):
        times_in("1d:1h:3", None, "taus")


def test_a_column_has_one_unit():
    assert readable_unit([21600.0, 46800.0, 432000.0], "s")[1] == "h"
    assert readable_unit([0.0, 86400.0, 10 * 86400.0], "s")[1] == "d"
    assert readable_unit([0.5, 100.0], "s") == (1.0, "s")
    assert readable_unit([1e4, 2e5], "furlong") == (1.0, "furlong")
    assert readable_unit([], "s") == (1.0, "s")
    factor, unit = readable_unit([1e5, 2.5e5], "m")
    assert (unit, factor) == ("km", 1e-3)


@pytest.mark.parametrize("unit", ["s", "min", "h", "d"])
def test_no_time_is_read_in_powers_of_ten(unit):
    for value in np.geomspace(1e-3, 1e6, 40):
        assert "e" not in readable(float(value), unit).split()[0]
