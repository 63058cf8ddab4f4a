"""A page's side of the conversation, without a browser."""

import json
import os
import time
import urllib.error
import urllib.request
from urllib.parse import quote

CHOSEN = {"models": ["brownian", "langevin"], "u_rms": 1.5, "timescale": 1.0}


def prepare():
    """For the process that computes: compiled programs are those that all tests share."""
    from driftbayes.cli._jax import prepare_jax

    os.environ["DRIFTBAYES_CACHE"] = "off"
    prepare_jax()


def prepare_nothing():
    """For a process that computes nothing, and has no library to import."""


def answer_at_once(*_):
    """A comparison that takes no time; called in the process that computes."""
    return {"verdict": "langevin"}


def sleep_for_ever(*_):
    """A computation that nothing but a kill ends; called in the process that computes."""
    time.sleep(10_000)


def stuck_at_the_second_tau(key, request, tau):
    """A scan that gets no further."""
    from driftbayes.explore import compute

    if tau > 0.9:
        sleep_for_ever()
    return compute.compare_tau(key, request, tau)


def kept_keys(*_):
    """Keys of the data sets that the process that computes holds."""
    from driftbayes.explore import compute

    return list(compute._kept)


def packed(files):
    """The body that the page sends: a line that lists the files, and their bytes."""
    listed = [{"path": path, "size": len(data)} for path, data in files.items()]
    return json.dumps({"files": listed}).encode() + b"\n" + b"".join(files.values())


def folder_files(folder):
    """The files of a folder as a browser lists them."""
    return {
        f"{folder.name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Client:
    """Asks a server as its own page does; headers can be changed to those of others."""

    def __init__(self, server):
        self.server = server
        self.base = f"http://127.0.0.1:{server.guard.port}"

    def raw(self, path, body=None, **headers):
        request = urllib.request.Request(self.base + path, data=body)
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), error.headers

    def ask(self, what, request=None, **headers):
        headers = {"X-Driftbayes-Token": self.server.guard.token, **headers}
        status, body, _ = self.raw(f"/api/{what}", json.dumps(request or {}).encode(), **headers)
        return status, json.loads(body)

    def upload(self, files, options=""):
        headers = {
            "X-Driftbayes-Token": self.server.guard.token,
            "X-Driftbayes-Options": quote(options),
        }
        status, body, _ = self.raw("/api/upload", packed(files), **headers)
        return status, json.loads(body)
