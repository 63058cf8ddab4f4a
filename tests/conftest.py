"""Double precision, strict promotion and checked annotations for every test."""

import gc
import json
import os
import shutil
import sys
import zlib
from collections import Counter
from importlib.metadata import version
from itertools import count
from pathlib import Path

# One thread of linear algebra for each worker: with more, those of one spin while they wait for a
# core that another has. It is read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import jax
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# What is imported and collected stays: looking for garbage in it takes a tenth of the time.
gc.disable()

# Tables are as wide as without a terminal, whatever runs the tests.
os.environ.pop("COLUMNS", None)

# Bytecode is kept even where the environment says otherwise: dozens of tests start a process that
# imports the package, and every run imports the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Compiled programs are kept between processes and between runs.
_PROGRAMS = {
    "jax_compilation_cache_dir": str(Path(__file__).parents[1] / ".pytest_cache" / "programs"),
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
for _name, _value in _PROGRAMS.items():
    os.environ[_name.upper()] = str(_value)
    jax.config.update(_name, _value)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Annotated arrays are checked at run time, from before the package is first imported. It takes up
# to a third of the time of a test, so only `make test-slow` does.
if os.environ.get("DRIFTBAYES_CHECK_ALL"):
    rooms = ("models", "likelihood", "priors", "inference")
    install_import_hook([f"driftbayes.{room}" for room in rooms], "beartype.beartype")

# The first example of each shape compiles; a deadline would measure the compiler.
settings.register_profile(
    "driftbayes",
    deadline=None,
    derandomize=True,
    max_examples=int(os.environ.get("DRIFTBAYES_EXAMPLES", "16")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("driftbayes")


# Linux allows a process 65,530 stretches of memory. Every compiled program holds several, and JAX
# keeps them all: the suite, in one process, would pass the limit and be aborted.
_MAX_MAPPINGS = 35_000


# The older emitters of XLA, one part per program and short vectors: compiling takes a third of the
# time.
_FAST_TO_COMPILE = (
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 "
    "--xla_cpu_prefer_vector_width=128"
)


def pytest_configure(config):
    """Compile quickly, here and in child processes; the slow tests keep the defaults of XLA."""
    if config.option.markexpr == "not slow":
        # A version of XLA that does not know a flag ends the process.
        if version("jaxlib").startswith(("0.9.", "0.10.")):
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FAST_TO_COMPILE}"
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"


def pytest_collection_finish():
    """Exempt what is loaded now from garbage collection: it stays, and is a million objects."""
    gc.collect()
    gc.freeze()
    gc.enable()
    # JAX makes many objects that live on: fewer looks through all of them.
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave one in n cases of a test that is marked `sampled(n)`; the others are slow.

    Which, depends on the name of the test: together such tests meet all models. Tests marked
    with the same word, `sampled(n, like=word)`, take the same cases, and share programs.
    """
    seen = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            name = f"{item.path.name}::{item.originalname}"
            word = f"{item.path.name}::{mark.kwargs.get('like', item.originalname)}"
            if (zlib.crc32(word.encode()) + seen[name]) % mark.args[0]:
                item.add_marker("slow")
            seen[name] += 1


# In slow tests, flows and networks take thousands of steps; of other programs most run once.
_OPTIMISED = ("turbulence", "reproduce", "simulators", "docs", "learned")


@pytest.fixture(autouse=True, scope="module")
def quickly_compiled(request):
    """Ask little of the compiler where compiling takes longer than running."""
    is_fast = _FAST_TO_COMPILE in os.environ.get("XLA_FLAGS", "")
    is_quick = is_fast or Path(request.node.path).parent.name not in _OPTIMISED
    if is_quick != jax.config.read("jax_disable_most_optimizations"):
        jax.clear_caches()
        jax.config.update("jax_disable_most_optimizations", is_quick)


_TESTS_RUN = count(1)


@pytest.fixture(autouse=True)
def _forget_compiled_programs():
    """Look now and then, as one file may have a thousand cases, each with programs of its own."""
    yield
    mappings = Path("/proc/self/maps")
    if next(_TESTS_RUN) % 20 or not mappings.exists():
        return
    if len(mappings.read_bytes().splitlines()) > _MAX_MAPPINGS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="module")
def browser():
    """A real browser. One at a time, and no longer than it is needed.

    Two cannot be driven from one process, and while one is, Zarr finds an event loop running in
    its thread and refuses to read.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs chromium (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def golden():
    """Stored values by file name, made by tools/make_golden.py with 50-digit arithmetic."""

    def load(name: str):
        return json.loads((Path(__file__).parent / "golden" / f"{name}.json").read_text())

    return load
