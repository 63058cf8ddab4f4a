"""Whether another process could connect to one of ours."""

import os
from contextlib import suppress
from pathlib import Path

import psutil


def open_sockets(process):
    """Sockets of a process that another could connect to, or find by a name."""
    found = [
        one.laddr
        for kind in ("inet", "unix")
        for one in process.net_connections(kind)
        if one.status == psutil.CONN_LISTEN or (kind == "unix" and one.laddr)
    ]
    inodes = set()
    with suppress(OSError):
        for file in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(os.readlink(file))
    # Listening sockets without a name; the kernel marks them.
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[3], 16) & 0x10000 and f"socket:[{words[6]}]" in inodes:
            found.append(line)
    return found
