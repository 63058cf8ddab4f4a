"""`driftbayes explore`: a page that is served until Ctrl-C."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from driftbayes.cli.explore import _given
from driftbayes.cli.main import build_parser
from driftbayes.explore.session import Session


@contextmanager
def exploring(*arguments, cwd, **variables):
    """A process that serves; ended at the end, if the test has not done so."""
    environment = {
        **os.environ,
        **{"DRIFTBAYES_CACHE": "off", "TMPDIR": str(cwd), "PYTHONUNBUFFERED": "1"},
        **variables,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "driftbayes", "explore", "--no-browser", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=cwd,
        env=environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def default_action(number):
    """Let processes started here end at a signal that `nohup` tells these tests to ignore."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.fixture
def try_out(ask, monkeypatch, tmp_path):
    """Run the command in this process; nothing is compiled for a server that never starts."""
    monkeypatch.setattr("driftbayes.explore.api.Explorer.warm_up", lambda self: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return lambda *arguments: ask("explore", "--no-browser", *arguments)


def asked(url, what, wish):
    base, _, token = url.partition("#")
    request = urllib.request.Request(f"{base}api/{what}", json.dumps(wish).encode())
    request.add_header("X-Driftbayes-Token", token)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def upload(url):
    base, _, token = url.partition("#")
    table = b"id,time,x\na,0,0\na,1,1\n"
    body = json.dumps({"files": [{"path": "dropped.csv", "size": len(table)}]}).encode()
    request = urllib.request.Request(f"{base}api/upload", body + b"\n" + table)
    request.add_header("X-Driftbayes-Token", token)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer)["name"] == "dropped.csv"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_serves_a_file_until_it_is_ended_and_leaves_nothing(tracks_csv, tmp_path, way):
    arguments = (tracks_csv, "--length-unit", "km")
    with default_action(way), exploring(*arguments, cwd=tmp_path) as process:
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#[\w-]{32}", url)
        first = asked(url, "start", {})["first"]
        assert first["name"] == str(tracks_csv)
        assert first["units"]["length"] == "km"
        upload(url)
        assert len(list(tmp_path.glob(".driftbayes-*/*/dropped.csv"))) == 1
        # It is compiling just now, which must not hold it up.
        process.send_signal(way)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert err == "open this address in a browser; Ctrl-C stops the server\nstopped\n"
    assert list(tmp_path.iterdir()) == []
    assert tracks_csv.exists()


# A folder as a session makes it, without the libraries that one computes with.
_SESSION = """
import tempfile, time
from pathlib import Path
from driftbayes._storage.leftovers import temporary_path

folder = temporary_path(Path(tempfile.gettempdir()) / "explore") / "upload"
folder.mkdir(parents=True)
(folder / "dropped.csv").write_text("")
print("ready", flush=True)
time.sleep(600)
"""


def test_what_a_killed_session_left_is_removed_by_the_next_and_no_other(tmp_path, monkeypatch):
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SESSION],
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        for _ in range(2)
    ]
    first, second = started
    try:
        for process in started:
            assert process.stdout.readline() == b"ready\n"
        assert len(list(tmp_path.glob(".driftbayes-*/*/dropped.csv"))) == 2
        first.kill()
        first.wait()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        Session().close()
        (kept,) = tmp_path.glob(".driftbayes-*/*/dropped.csv")
        assert f"-{second.pid}-" in str(kept)
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()


@pytest.mark.slow
def test_what_a_killed_command_left_is_removed_by_the_next_and_no_other(tmp_path):
    with exploring(cwd=tmp_path) as first, exploring(cwd=tmp_path) as second:
        for process in (first, second):
            upload(process.stdout.readline().strip())
        assert len(list(tmp_path.glob(".driftbayes-*/*/dropped.csv"))) == 2
        first.kill()
        first.communicate()
        with exploring(cwd=tmp_path) as third:
            assert third.stdout.readline().startswith("http://")
            (kept,) = tmp_path.glob(".driftbayes-*/*/dropped.csv")
            assert f"-{second.pid}-" in str(kept)


@pytest.mark.slow
def test_nohup_is_obeyed(tmp_path):
    code = "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    code += "from driftbayes.cli.main import main; main(['explore', '--no-browser'])"
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env={**os.environ, "DRIFTBAYES_CACHE": "off", "TMPDIR": str(tmp_path)},
    )
    url = process.stdout.readline().strip()
    process.send_signal(signal.SIGHUP)
    assert "max_upload" in asked(url, "start", {})
    process.terminate()
    process.communicate()


def test_a_port_that_is_taken_is_told(try_out, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = try_out("--port", port)
    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(
        rf"driftbayes: cannot listen at 127.0.0.1, port {port}: .+; choose another with --port, or "
        r"omit it for a free one\n",
        answer.err,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--port", "70000"), "--port must be a whole number from 0 to 65535, got 70000"),
        (("--max-upload", "much"), "--max-upload must be a size such as 200MB or 1GB, got 'much'"),
        (("no-such.csv",), "there is no file 'no-such.csv'; check its name and its directory"),
    ],
)
def test_a_slip_is_told_in_a_line(try_out, arguments, message, tmp_path):
    answer = try_out(*arguments)
    assert (answer.code, answer.out, answer.err) == (2, "", f"driftbayes: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_another_host_is_warned_of(try_out, monkeypatch):
    def serve(explorer, *, host, port, on_ready):
        on_ready(f"http://{host}:1/#token")

    monkeypatch.setattr("driftbayes.explore.server.serve", serve)
    answer = try_out("--host", "0.0.0.0")
    assert (answer.code, answer.out) == (0, "http://0.0.0.0:1/#token\n")
    assert answer.err.startswith("warning: on 0.0.0.0 anyone on the network")
    quiet = try_out()
    assert "warning" not in quiet.err


def test_the_options_of_reading_come_back_as_they_were_given():
    given = ["--columns", "x=east y", "--drop-short", "--noise", "0.5", "--frame", "local"]
    args = build_parser().parse_args(["explore", "t.csv", *given])
    assert args.file == Path("t.csv")
    assert _given(args) == "--columns 'x=east y' --frame local --drop-short --noise 0.5"
    assert _given(build_parser().parse_args(["explore"])) == ""
