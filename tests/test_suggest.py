"""A mistyped word finds the one that was meant, and a strange one finds none."""

import pytest

from driftbayes.errors import did_you_mean, nearest

MODELS = ("brownian", "langevin", "confined_brownian", "matern")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("langevn", "langevin"),
        ("Langevin", "langevin"),
        ("browninan", "brownian"),
        ("confined-brownian", "confined_brownian"),
        ("mat", "matern"),
        ("levy", None),
        ("", None),
        ("b", None),
        ("x" * 10_000, None),
    ],
)
def test_nearest(word, meant):
    assert nearest(word, MODELS) == meant


def test_a_beginning_that_fits_two_words_suggests_neither():
    assert nearest("lap", ("laplace", "laplace_is")) is None


def test_another_symbol_is_not_a_slip():
    assert did_you_mean("sigma", ("kappa", "gamma", "k")) == ""


def test_the_end_of_a_message():
    assert did_you_mean("gama", ("kappa", "gamma")) == "; did you mean 'gamma'?"


def test_a_million_names_are_not_all_read():
    def names():
        yield from (f"column{i}" for i in range(10_000))
        pytest.fail("read to the end")

    assert nearest("column7", names()) == "column7"
