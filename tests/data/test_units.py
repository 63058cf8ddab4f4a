"""Units: names to factors, and back to words."""

import pytest
from numpy.testing import assert_allclose

from driftbayes import DriftbayesError
from driftbayes.data.units import length_factor, parse_quantity, readable_time, time_factor


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
