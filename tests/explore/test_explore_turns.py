"""Whose turn it is, what is kept, and what happens when something goes wrong."""

import threading
import time

import numpy as np
import pytest
from desk_explore import Client

import driftbayes as db
from driftbayes.explore import api
from driftbayes.explore.bench import Bench, Lanes
from driftbayes.explore.dataset import DataSet, Reading
from driftbayes.explore.shelf import Shelf

# Turns


def test_the_newest_of_a_kind_is_answered_and_older_ones_are_dropped():
    explorer = api.Explorer()
    done = []

    def request(name, page="one"):
        try:
            with explorer._turn("simulate", {"page": page}):
                done.append(name)
        except api.Stale:
            done.append(f"{name} dropped")

    with explorer.bench.at_once():
        threads = []
        for name, page in (("a", "one"), ("b", "one"), ("other", "two"), ("c", "one")):
            entered = len(explorer._lanes._newest), dict(explorer._lanes._newest)
            threads.append(threading.Thread(target=request, args=(name, page)))
            threads[-1].start()
            # In this order: each has its number before the next begins.
            while dict(explorer._lanes._newest) == entered[1]:
                time.sleep(0.001)
    for thread in threads:
        thread.join(10)
    explorer.close()
    assert sorted(done) == ["a dropped", "b dropped", "c", "other"]


def test_whoever_waits_goes_before_a_scan():
    bench, order = Bench(), []
    scan_waits, person_waits = threading.Event(), threading.Event()

    def scan():
        scan_waits.set()
        with bench.when_idle():
            order.append("scan")

    def person():
        person_waits.set()
        with bench.at_once():
            order.append("person")

    with bench.at_once():
        threads = [threading.Thread(target=scan), threading.Thread(target=person)]
        threads[0].start()
        scan_waits.wait(10)
        threads[1].start()
        person_waits.wait(10)
        while not bench._waiting:
            time.sleep(0.001)
    for thread in threads:
        thread.join(10)
    assert order == ["person", "scan"]
    assert not bench.is_busy


def test_the_bench_is_free_again_after_a_failure():
    bench = Bench()
    with pytest.raises(RuntimeError), bench.at_once():
        raise RuntimeError
    with bench.when_idle():
        assert bench.is_busy


def test_lanes_of_closed_pages_are_forgotten():
    lanes = Lanes()
    numbers = [lanes.enter(f"page {i}") for i in range(1500)]
    assert len(lanes._newest) == 1000
    assert lanes.is_newest("page 0", numbers[0])


# Failures


def test_a_bug_is_told_in_the_terminal_and_the_server_goes_on(client, monkeypatch, capfd):
    def broken(wish):
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(client.server.explorer, "reread", broken)
    status, answer = client.ask("reread")
    assert status == 500
    assert answer == {"error": "internal error; what happened is in the terminal"}
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
    assert len(list(server.explorer.shelf.folder.iterdir())) == 12
    # Read again from the same file: it must stay as long as either is kept.
    for _ in range(13):
        _, card = client.ask("reread", {"data": card["data"], "options": ""})
        assert "error" not in card
    assert len(list(server.explorer.shelf.folder.iterdir())) == 1


def made(number):
    tracks = db.Trajectories.from_arrays(np.array([[[0.0], [1.0 + number]]]), dt=1.0)
    return DataSet(Reading(tracks), "x")


def test_a_file_of_the_users_own_is_kept_and_never_removed(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,time,x\na,0,0\na,1,1\n")
    explorer = api.Explorer()
    explorer.open_file(path)
    for i in range(20):
        explorer.shelf.keep(made(i))
    assert explorer.start()["first"]["name"] == str(path)
    explorer.close()
    assert path.exists()
    assert not explorer.shelf.folder.exists()


def test_the_sliders_of_one_page_do_not_push_out_the_file_of_another():
    shelf = Shelf()
    file = shelf.keep(made(0))
    numbers = [shelf.keep(made(i), "a page") for i in range(50)]
    assert shelf.data(file)
    assert shelf.data(numbers[-3])
    with pytest.raises(db.DriftbayesError, match="these data are no longer kept"):
        shelf.data(numbers[-4])
    shelf.close()
