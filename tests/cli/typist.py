"""Somebody at a keyboard: a shell on a terminal of its own, and keys that are pressed."""

import os
import pty
import select
import subprocess
import time

PROMPT = "READY> "


def type_keys(shell, setup, keys, wanted, folder, patience=30):
    """What the shell shows after the keys, up to the wanted text or the end of patience."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        shell,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**os.environ, "PS1": PROMPT, "PROMPT": PROMPT, "TERM": "dumb", "HOME": str(folder)},
        start_new_session=True,
    )
    os.close(slave)

    def read_until(text):
        seen, end = b"", time.monotonic() + patience
        while text.encode() not in seen and time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    seen += os.read(master, 65536)
                except OSError:
                    break
        return seen.decode(errors="replace")

    try:
        read_until(PROMPT)
        os.write(master, f"{setup}\n".encode())
        read_until(PROMPT)
        os.write(master, keys.encode())
        return read_until(wanted)
    finally:
        process.kill()
        process.wait()
        os.close(master)
