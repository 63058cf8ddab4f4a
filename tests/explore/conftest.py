"""A server in this process, and a browser to look at it; its children share what they compile."""

import threading

import numpy as np
import pytest
from desk_explore import Client, prepare

from driftbayes import Trajectories
from driftbayes.cli.explore import _read
from driftbayes.explore.api import Explorer
from driftbayes.explore.server import Server
from driftbayes.io import write_trajectories
from driftbayes.testing import reference


@pytest.fixture(scope="session")
def start_server():
    """Start a server; all are stopped at the end."""
    running = []

    def start(**options):
        server = Server(Explorer(read=_read, prepare=prepare, **options))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        server.explorer.close()
        thread.join()
        assert not server.explorer.session.folder.exists()


@pytest.fixture(scope="session")
def server(start_server):
    return start_server()


@pytest.fixture
def client(server):
    return Client(server)


@pytest.fixture(scope="session")
def tracks_csv(tmp_path_factory):
    """Langevin trajectories with gamma = k = 1; long enough for several sampling times."""
    rng = np.random.default_rng(0)
    dx = reference.simulate_langevin(rng, 30, 60, 2, 0.5, 1.0, 1.0)
    x = np.concatenate([np.zeros((30, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    path = tmp_path_factory.mktemp("explore") / "tracks.csv"
    write_trajectories(Trajectories.from_arrays(x, dt=0.5), path)
    return path
