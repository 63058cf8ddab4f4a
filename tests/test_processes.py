"""A child process answers its parent, and only its parent."""

import math
import os
import signal
import time

import pytest

from driftbayes._processes import Child, ChildDied
from driftbayes.errors import DriftbayesError


@pytest.fixture(scope="module")
def child():
    child = Child()
    yield child
    child.kill()


def test_it_calls_functions_and_hands_back_what_they_raise(child):
    child.send(os.getpid)
    assert child.receive() == child.pid != os.getpid()
    child.send(math.sqrt, -1.0)
    with pytest.raises(ValueError, match="math domain error") as caught:
        child.receive()
    # Where it happened is not lost on the way.
    assert "_serve" in caught.value.__notes__[0]
    child.send(math.sqrt, 4.0)
    assert child.receive() == 2.0


def test_what_cannot_be_sent_is_refused_in_a_sentence(child):
    with pytest.raises(DriftbayesError, match="cannot send the work to another process"):
        child.send(lambda: None)
    # An answer that cannot travel is an error, not a silence.
    child.send(open, os.devnull)
    with pytest.raises(RuntimeError, match="TypeError"):
        child.receive()
    child.send(os.getpid)
    assert child.receive() == child.pid


def test_ctrl_c_is_the_parents_to_hear(child):
    child.send(os.kill, child.pid, signal.SIGINT)
    assert child.receive() is None
    child.send(os.getpid)
    assert child.receive() == child.pid


def test_one_that_is_killed_is_missed():
    child = Child()
    child.send(time.sleep, 600)
    assert not child.has_answered(0.1)
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildDied, match="killed by SIGKILL"):
        child.receive()
    child.kill()


def test_one_that_is_killed_before_it_began_is_missed():
    child = Child()
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildDied, match="killed by SIGKILL"):  # noqa: PT012
        child.send(os.getpid)
        child.receive()
