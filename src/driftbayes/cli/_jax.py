"""Set up JAX: double precision, and a private cache of compiled programs."""

import hashlib
import os
import platform
import stat
from pathlib import Path

from driftbayes.cli import _console

_VARIABLE = "DRIFTBAYES_CACHE"
# Names of JAX's monitoring events.
_COMPILED = "/jax/core/compile/backend_compile_duration"
_FROM_CACHE = "/jax/compilation_cache/cache_hits"
# Minimum duration of a compilation that is reported, in seconds.
_MIN_REPORTED = 0.1


def prepare_jax() -> None:
    """Switch JAX to double precision and cache compiled programs between runs.

    Only commands change JAX's global settings, never the library. The cache is in the user's cache
    directory, or in $DRIFTBAYES_CACHE; "off" disables it.
    """
    import jax

    _listen()
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    directory = _cache_directory()
    if directory is not None:
        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if _console.is_verbose():
        device = jax.devices()[0]
        _console.detail(f"computing on {device.platform} ({device.device_kind})")
        _console.detail(f"compiled programs are cached in {directory or 'memory only'}")


def report_compilation() -> None:
    """Report the time spent compiling, if --verbose."""
    if _Compiled.count:
        _console.detail(
            f"compiled {_Compiled.count} programs in {_Compiled.seconds:.2f} s, "
            f"{_Compiled.from_cache} of them from the cache"
        )


class _Compiled:
    """Number and duration of the compilations of this command."""

    listening = False
    count = from_cache = 0
    seconds = 0.0


def _listen() -> None:
    """Count compilations from now on."""
    import jax

    _Compiled.count = _Compiled.from_cache = 0
    _Compiled.seconds = 0.0
    # Only once in a process, because JAX keeps its listeners.
    if not _Compiled.listening and _console.is_verbose():
        _Compiled.listening = True
        jax.monitoring.register_event_duration_secs_listener(_count_compilation)
        jax.monitoring.register_event_listener(_count_cache_hit)


def _count_compilation(event: str, duration_secs: float, **kwargs: str | int) -> None:
    if event != _COMPILED:
        return
    _Compiled.count += 1
    _Compiled.seconds += duration_secs
    if duration_secs > _MIN_REPORTED:
        program = kwargs.get("fun_name", "a program")
        _console.detail(f"compiled {program} in {duration_secs:.2f} s")


def _count_cache_hit(event: str, **_: str | int) -> None:
    _Compiled.from_cache += event == _FROM_CACHE


def _cache_directory() -> Path | None:
    """Return a private directory for this machine's programs; None if there is none.

    Compiled programs are executed, so the directory must belong to the user and be writable by
    nobody else. Programs depend on the processor, and machines may share a home directory, so each
    kind of processor has a separate folder.
    """
    chosen = os.environ.get(_VARIABLE, "")
    if chosen == "off":
        return None
    try:
        # A user without an entry in the password file has no home directory and no cache.
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "driftbayes"
        root = Path(chosen) if chosen else base
        directory = root / f"jax-{_processor()}"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = directory.stat()
    except (OSError, RuntimeError):
        return None
    foreign = hasattr(os, "getuid") and info.st_uid != os.getuid()
    shared = bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if foreign or shared or not os.access(directory, os.W_OK):
        return None
    return directory


def _processor() -> str:
    """Return a short hash of the processor's kind and instruction set."""
    facts = [platform.machine(), platform.processor(), platform.system()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts += sorted({line for line in lines if line.startswith(("model name", "flags"))})
    except OSError:
        pass
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
