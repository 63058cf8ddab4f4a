"""Who may ask, what may be sent, and what it may be called."""

import io
import json
import socket
import stat
from email.message import Message

import pytest
from desk_explore import Client, packed

from driftbayes.errors import DriftbayesError
from driftbayes.explore.api import Explorer
from driftbayes.explore.server import Guard, Server
from driftbayes.explore.uploads import parse_size, receive, safe_name

# Host, Origin, Sec-Fetch-Site and token


def asked(guard, *, token=True, **given):
    headers = Message()
    for name, value in {"Host": "127.0.0.1:8000", **given}.items():
        headers[name.replace("_", "-")] = value
    if token:
        headers["X-Driftbayes-Token"] = guard.token
    return guard.refusal(headers, needs_token=True)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000"])
def test_its_own_names_are_let_in(host):
    guard = Guard("127.0.0.1", 8000)
    assert asked(guard, Host=host) is None
    assert asked(guard, Host=host, Origin=f"http://{host}", Sec_Fetch_Site="same-origin") is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:8000", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8000"),
        *("evil@127.0.0.1:8000", "", "127.0.0.1:8000/", "127.0.0.1:port", "192.168.0.7:8000"),
        *("127.0.0.1:8000,evil.example", "[::1:8000"),
    ],
)
def test_a_foreign_name_is_refused(host):
    message = asked(Guard("127.0.0.1", 8000), Host=host)
    assert message == "unknown host name; open the address shown in the terminal"


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001"),
        *("", "file://", "http://127.0.0.1:8000.evil.example"),
    ],
)
def test_a_foreign_origin_is_refused(origin):
    message = asked(Guard("127.0.0.1", 8000), Origin=origin)
    assert message == "this server answers only its own page"


def test_a_question_of_another_site_is_refused_but_a_link_to_the_page_is_not(client):
    assert asked(Guard("127.0.0.1", 8000), Sec_Fetch_Site="cross-site") is not None
    assert client.raw("/", **{"Sec-Fetch-Site": "cross-site"})[0] == 200


def test_it_can_be_bound_to_the_other_kind_of_address():
    try:
        server = Server(Explorer(), host="::1")
    except DriftbayesError:
        pytest.skip("this machine has no address ::1")
    assert server.url.startswith(f"http://[::1]:{server.server_address[1]}/#")
    server.server_close()
    server.explorer.close()


def test_the_token_is_needed_and_its_own():
    guard, other = Guard("127.0.0.1", 8000), Guard("127.0.0.1", 8000)
    assert guard.token != other.token
    assert guard.token not in repr(guard)
    message = "the token of this session is missing; open the address shown in the terminal"
    assert asked(guard, token=False) == message
    for wrong in (other.token, guard.token[:-1], "é"):
        assert asked(guard, token=False, X_Driftbayes_Token=wrong) == message


def test_bound_to_all_addresses_it_takes_numbers_but_no_names():
    guard = Guard("0.0.0.0", 8000)
    assert asked(guard, Host="192.168.0.7:8000") is None
    assert asked(guard, Host="evil.example:8000") is not None


def test_the_server_refuses_them_too(client):
    own = {"X-Driftbayes-Token": client.server.guard.token}
    for headers in (
        {},
        {"X-Driftbayes-Token": "wrong"},
        {**own, "Host": "evil.example"},
        {**own, "Origin": "http://evil.example"},
    ):
        status, body, _ = client.raw("/api/start", b"{}", **headers)
        assert status == 403
        assert set(json.loads(body)) == {"error"}
    status, body, _ = client.raw("/", Host="evil.example")
    assert status == 403
    assert client.ask("start")[0] == 200


def test_every_answer_forbids_the_network(client):
    for path in ("/", "/main.js", "/report.css", "/nothing"):
        _, _, headers = client.raw(path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "http" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    "path", ["/../api.py", "/static/page.html", "/%2e%2e/server.py", "//etc/passwd", "/page.html"]
)
def test_only_the_files_of_the_page_are_served(client, path):
    assert client.raw(path)[0] == 404


def test_a_page_elsewhere_gets_no_permission_to_ask(client):
    with socket.create_connection(("127.0.0.1", client.server.guard.port), timeout=10) as line:
        port = client.server.guard.port
        line.sendall(f"OPTIONS /api/start HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        answer = line.recv(4096).decode()
    assert answer.startswith("HTTP/1.1 501")
    assert "Access-Control" not in answer


# What is sent


def test_sizes_are_understood():
    assert [parse_size(t) for t in ("200MB", "1.5 GB", "1000", "3kb")] == [
        *(200_000_000, 1_500_000_000),
        *(1000, 3000),
    ]


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "0", "5 pounds", "nan"])
def test_a_wrong_size_is_refused(text):
    with pytest.raises(DriftbayesError, match="--max-upload must be a size such as 200MB"):
        parse_size(text)


def test_too_much_is_refused_before_it_is_sent(start_server):
    server = start_server(max_upload=1000)
    request = (
        f"POST /api/upload HTTP/1.1\r\nHost: 127.0.0.1:{server.guard.port}\r\n"
        f"X-Driftbayes-Token: {server.guard.token}\r\nContent-Length: 5000000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.guard.port), timeout=10) as line:
        # Not a byte of the body: a server that waited for it would never answer.
        line.sendall(request.encode())
        answer = b""
        while block := line.recv(4096):
            answer += block
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413")
    assert json.loads(body)["error"] == (
        "the upload has 5 GB, at most 1 kB are allowed; start with --max-upload SIZE, or open the "
        "file with `driftbayes explore FILE`"
    )
    assert list(server.explorer.session.folder.iterdir()) == []


def test_a_body_of_unknown_length_is_refused(client):
    port, token = client.server.guard.port, client.server.guard.token
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(
            f"POST /api/upload HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Driftbayes-Token: {token}"
            "\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        assert line.recv(4096).startswith(b"HTTP/1.1 411")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("tracks.csv", "tracks.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\tracks.csv", "tracks.csv"),
        ("a\0b\n<img>.csv", "a_b__img_.csv"),
        (".zarray", ".zarray"),
        ("bahnen über tag.csv", "bahnen über tag.csv"),
        ("nul.csv", "_nul.csv"),
        ("x" * 300 + ".csv", "x" * 116 + ".csv"),
    ],
)
def test_names_are_nothing_but_names(given, kept):
    assert safe_name(given) == kept


@pytest.mark.parametrize("given", ["", ".", "..", "...", "a/", " "])
def test_what_is_no_name_is_refused(given):
    with pytest.raises(DriftbayesError, match="expected the name of a file"):
        safe_name(given)


def received(files, folder, body=None):
    body = packed(files) if body is None else body
    return receive(io.BytesIO(body), len(body), folder)


def test_files_arrive_whole_and_inside(tmp_path):
    path = received({"run.zarr/a/.zarray": b"1", "run.zarr/b": b"22"}, tmp_path)
    assert path == tmp_path / "run.zarr"
    assert (path / "a" / ".zarray").read_bytes() == b"1"
    assert (path / "b").read_bytes() == b"22"


@pytest.mark.parametrize("path", ["../up.csv", "a/../../up.csv", "a/./b", ".."])
def test_a_path_that_leads_out_is_refused(tmp_path, path):
    folder = tmp_path / "inside"
    folder.mkdir()
    with pytest.raises(DriftbayesError):
        received({path: b"1"}, folder)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_path_from_the_root_stays_inside(tmp_path):
    assert received({"/etc/passwd": b"1"}, tmp_path) == tmp_path / "etc"
    assert (tmp_path / "etc" / "passwd").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "expected a list of 1 to 50,000 files"),
        (b"\n", "expected a list"),
        (b'{"files": []}\n', "expected a list"),
        (b'{"files": [{"path": "a", "size": -1}]}\n', "expected the size of 'a'"),
        (b'{"files": [{"path": "a", "size": true}]}\nx', "expected the size of 'a'"),
        (b'{"files": [{"path": "a", "size": 5}]}\nxy', "does not match their bytes"),
        (packed({"a": b"1", "b": b"2"}), "expected one file or one folder, got 2"),
        (packed({"a/x": b"1", "a\\x": b"2"}), "expected one file or one folder, got 2"),
        (packed({"a/x?": b"1", "a/x*": b"2"}), "two files are named 'x_'"),
        (packed({"a/" * 20 + "x": b"1"}), "expected a path of 1 to 12 names, got 21"),
    ],
)
def test_a_wrong_body_is_refused_in_a_sentence(tmp_path, body, message):
    with pytest.raises(DriftbayesError, match=message):
        received({}, tmp_path, body)


def test_what_was_sent_lies_where_only_its_owner_looks(server):
    assert stat.S_IMODE(server.explorer.session.folder.stat().st_mode) == 0o700


def test_a_file_that_cannot_be_read_leaves_nothing_behind(start_server):
    server = start_server()
    status, answer = Client(server).upload({"tracks.csv": b"not,a,track\n1,2,3\n"})
    assert status == 200
    assert answer["error"].startswith("'tracks.csv'")
    assert list(server.explorer.session.folder.iterdir()) == []
