"""Whose turn it is, what is kept, and what happens when something goes wrong."""

import json
import math
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest
from desk_explore import (
    CHOSEN,
    Client,
    answer_at_once,
    kept_keys,
    prepare_nothing,
    sleep_for_ever,
)

import driftbayes as db
from driftbayes.explore import api
from driftbayes.explore import compute as compute_module
from driftbayes.explore import server as server_module
from driftbayes.explore.compute import Abandoned, ComputeProcess
from driftbayes.explore.dataset import DataSet, Reading
from driftbayes.explore.server import MAX_CONNECTIONS
from driftbayes.explore.session import LatestOnly, Session

# Turns


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch):
    """What nobody waits for is ended soon: processes that import nothing start at once."""
    monkeypatch.setattr(compute_module, "_GRACE", 0.1)


@pytest.fixture(scope="module")
def compute():
    """One for all tests; each leaves it idle. A process that was ended is started anew."""
    process = ComputeProcess(prepare_nothing)
    yield process
    process.close()


def started(function, *arguments, **options):
    """A call in a thread, and what came of it."""
    found = []

    def run():
        try:
            found.append(function(*arguments, **options))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def until(condition):
    while not condition():
        time.sleep(0.005)


def test_one_that_nobody_waits_for_is_ended_and_the_next_is_answered(compute):
    wanted = threading.Event()
    wanted.set()
    thread, found = started(compute.call, sleep_for_ever, is_wanted=wanted.is_set)
    until(lambda: compute._child is not None)
    old = compute._child.pid
    wanted.clear()
    # It would sleep for hours.
    assert compute.call(os.getpid) not in (old, os.getpid())
    thread.join(60)
    assert isinstance(found[0], Abandoned)
    with pytest.raises(ProcessLookupError):
        os.kill(old, 0)


def test_one_that_waits_its_turn_and_is_no_longer_wanted_never_begins(compute):
    wanted = threading.Event()
    wanted.set()
    thread, _ = started(compute.call, sleep_for_ever, is_wanted=wanted.is_set)
    until(lambda: compute.is_busy)
    with pytest.raises(Abandoned):
        compute.call(os.getpid, is_wanted=lambda: False)
    assert compute.is_busy
    wanted.clear()
    thread.join(60)


def test_a_killed_computation_is_told_and_the_next_is_answered(compute):
    thread, found = started(compute.call, sleep_for_ever)
    until(lambda: compute._child is not None)
    os.kill(compute._child.pid, signal.SIGKILL)
    thread.join(60)
    assert isinstance(found[0], db.DriftbayesError)
    assert str(found[0]).startswith("the system ended the computation (killed by SIGKILL)")
    assert compute.call(math.sqrt, 4.0) == 2.0


def test_an_error_of_the_computation_is_handed_on_and_the_process_stays(compute):
    first = compute.call(os.getpid)
    with pytest.raises(ValueError, match="math domain error"):
        compute.call(math.sqrt, -1.0)
    assert compute.call(os.getpid) == first
    assert not compute.is_busy


def test_the_end_does_not_wait_for_a_computation():
    compute = ComputeProcess(prepare_nothing)
    thread, found = started(compute.call, sleep_for_ever)
    until(lambda: compute._child is not None)
    compute.close()
    thread.join(60)
    assert isinstance(found[0], Abandoned)
    with pytest.raises(Abandoned):
        compute.call(os.getpid)


def test_whoever_waits_goes_before_a_scan(compute):
    order, wanted = [], threading.Event()
    wanted.set()
    started(compute.call, sleep_for_ever, is_wanted=wanted.is_set)
    until(lambda: compute.is_busy)

    def note(name, **options):
        compute.call(os.getpid, **options)
        order.append(name)

    scan, _ = started(note, "scan", when_idle=True)
    person, _ = started(note, "person")
    until(lambda: compute._waiting)
    wanted.clear()
    scan.join(60)
    person.join(60)
    assert order == ["person", "scan"]


def test_a_data_set_is_sent_once_and_the_oldest_is_forgotten(compute):
    sets = [made(i) for i in range(6)]
    for data in (*sets, sets[5], sets[0]):
        assert compute.call(kept_keys, data=data)[-1] == data.key
    assert set(compute.call(kept_keys, data=sets[0])) == {
        one.key for one in (sets[0], sets[3], sets[4], sets[5])
    }


def test_numbers_of_closed_pages_are_forgotten():
    latest = LatestOnly()
    numbers = [latest.enter(f"page {i}") for i in range(1500)]
    assert len(latest._newest) == 1000
    assert latest.is_newest("page 0", numbers[0])


def test_a_page_that_hangs_up_or_asks_anew_does_not_hold_up_the_next_answer(
    start_server, tracks_csv, monkeypatch
):
    server = start_server()
    client, explorer = Client(server), server.explorer
    _, card = client.upload({"tracks.csv": tracks_csv.read_bytes()})
    request = {"data": card["data"], "tau": 0, **CHOSEN}
    body = json.dumps(request).encode()
    monkeypatch.setattr(api.compute, "compare", sleep_for_ever)
    with socket.create_connection(("127.0.0.1", server.guard.port)) as line:
        line.sendall(
            f"POST /api/compare HTTP/1.1\r\nHost: 127.0.0.1:{server.guard.port}\r\n"
            f"X-Driftbayes-Token: {server.guard.token}\r\nContent-Length: {len(body)}\r\n\r\n"
            "".encode()
            + body
        )
        until(lambda: explorer.compute.is_busy)
    # It has hung up. The same, of one that waits but has sent something newer:
    thread, overtaken = started(client.ask, "compare", {**request, "page": "one"})
    until(lambda: explorer._latest._newest.get("one/compare"))
    monkeypatch.setattr(api.compute, "compare", answer_at_once)
    status, answer = client.ask("compare", {**request, "page": "one"})
    assert status == 200
    assert answer["verdict"] == "langevin"
    thread.join(60)
    assert overtaken == [(200, {"stale": True})]


# Connections


def test_too_many_connections_are_refused_in_a_sentence(start_server):
    server = start_server()
    client = Client(server)
    address = ("127.0.0.1", server.guard.port)
    lines = [socket.create_connection(address) for _ in range(MAX_CONNECTIONS)]
    until(lambda: server._free._value == 0)
    status, body, headers = client.raw("/")
    assert status == 503
    assert headers["Retry-After"] == "5"
    assert json.loads(body)["error"].startswith(f"more than {MAX_CONNECTIONS} connections")
    for line in lines:
        line.close()
    until(lambda: server._free._value == MAX_CONNECTIONS)
    assert client.raw("/")[0] == 200


@pytest.mark.parametrize(
    "sent", ["", "GET", "GET / HTTP/1.1\r\nX-Slow: ", "POST /api/start HTTP/1.1\r\n{head}{body}"]
)
def test_a_connection_that_drips_is_closed(start_server, monkeypatch, sent):
    for name in ("_IDLE", "_HEAD", "_BODY"):
        monkeypatch.setattr(server_module, name, 0.2)
    server = start_server()
    port, token = server.guard.port, server.guard.token
    head = f"Host: 127.0.0.1:{port}\r\nX-Driftbayes-Token: {token}\r\n"
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(sent.format(head=head, body="Content-Length: 100000\r\n\r\n").encode())
        line.settimeout(0.05)
        while True:
            try:
                if sent:
                    # Now and then a byte: no single wait is long.
                    line.sendall(b"x")
                if line.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
    until(lambda: server._free._value == MAX_CONNECTIONS)


# Failures


def test_a_bug_is_told_in_the_terminal_and_the_server_goes_on(client, monkeypatch, capfd):
    def broken(request):
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(client.server.explorer, "reread", broken)
    status, answer = client.ask("reread")
    assert status == 500
    assert answer == {"error": "internal error; see the terminal"}
    assert "ZeroDivisionError: a bug of ours" in capfd.readouterr().err
    assert client.ask("start")[0] == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_question_that_is_none_is_refused(client, body):
    token = {"X-Driftbayes-Token": client.server.guard.token}
    status, answer, _ = client.raw("/api/compare", body, **token)
    assert status == 200
    assert b'"error"' in answer


def test_what_is_not_there_is_not_found(client):
    assert client.ask("delete-everything")[0] == 404


def test_files_of_forgotten_data_are_removed(start_server):
    server = start_server()
    client = Client(server)
    for i in range(14):
        _, card = client.upload({"t.csv": f"id,time,x\na,0,{i}\na,1,1.5\n".encode()})
    assert len(list(server.explorer.session.folder.iterdir())) == 12
    # Read again from the same file: it must stay as long as either is kept.
    for _ in range(13):
        _, card = client.ask("reread", {"data": card["data"], "options": ""})
        assert "error" not in card
    assert len(list(server.explorer.session.folder.iterdir())) == 1


def made(number):
    tracks = db.Trajectories.from_arrays(np.array([[[0.0], [1.0 + number]]]), dt=1.0)
    return DataSet(Reading(tracks), "x")


def test_a_file_of_the_users_own_is_kept_and_never_removed(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,time,x\na,0,0\na,1,1\n")
    explorer = api.Explorer()
    explorer.open_file(path)
    for i in range(20):
        explorer.session.keep(made(i))
    assert explorer.start()["first"]["name"] == str(path)
    explorer.close()
    assert path.exists()
    assert not explorer.session.folder.exists()


def test_the_sliders_of_one_page_do_not_push_out_the_file_of_another():
    session = Session()
    file = session.keep(made(0))
    numbers = [session.keep(made(i), "a page") for i in range(50)]
    assert session.data(file)
    assert session.data(numbers[-3])
    with pytest.raises(db.DriftbayesError, match="these data have expired"):
        session.data(numbers[-4])
    session.close()
