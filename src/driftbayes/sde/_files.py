"""Load models from a user's Python file, which is executed."""

import importlib.util
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.models import MODELS
from driftbayes.models._named import SDES, WALKS
from driftbayes.sde._model import SDE, with_values


def load_model(text: str) -> SDE:
    """Execute a Python file, and return the SDE of a given name in it.

    The code runs with all rights of the user: load only files that you trust. Names in data files
    and requests of `explore` are never executed.

    Args:
        text: `FILE.py:NAME`.

    Raises:
        DriftbayesError: The file fails, or has no SDE of that name. The message names the line.
    """
    file, _, name = text.rpartition(":")
    path = Path(file).expanduser()
    if not path.is_file():
        msg = f"no file {file!r} to take the model {name!r} from; give PATH/FILE.py:NAME"
        raise DriftbayesError(msg)
    module = _run(path)
    known = [key for key, value in vars(module).items() if isinstance(value, SDE)]
    model = getattr(module, name, None)
    if not isinstance(model, SDE):
        got = (
            f"is of type {type(model).__name__}, not SDE,"
            if hasattr(module, name)
            else "is missing"
        )
        has = f"it has {', '.join(known)}" if known else "make one with driftbayes.SDE"
        raise DriftbayesError(f"{name!r} {got} in {file}; {has}{did_you_mean(name, known)}")
    law = model.law if model.name != "sde" else replace(model.law, name=name)
    return with_values(law, model.values)


def _run(path: Path) -> ModuleType:
    """Import a file as a separate module; errors name the line."""
    spec = importlib.util.spec_from_file_location(f"driftbayes_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Do not write compiled code beside the file.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except DriftbayesError as error:
        raise DriftbayesError(f"{path}, line {_line(path, error)}: {error}") from error
    except SyntaxError as error:
        msg = f"{path}, line {error.lineno}: {error.msg}; the file is not valid Python"
        raise DriftbayesError(msg) from error
    except Exception as error:
        kind = type(error).__name__
        msg = f"{path}, line {_line(path, error)}: {kind}: {error}; the file does not run"
        raise DriftbayesError(msg) from error
    finally:
        sys.dont_write_bytecode = before
    return module


def _line(path: Path, error: BaseException) -> int | None:
    """Return the line of the file at which an error was raised."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return lines[-1] if lines else None


def register_file_models(names: list[str]) -> list[str]:
    """Load models given as `FILE.py:NAME`, and return the names under which they are registered.

    Args:
        names: Names of models; `FILE.py:NAME`, with options after plus signs, is in a file.

    Raises:
        DriftbayesError: A file fails, or its model has the name of another model.
    """
    registered = []
    for text in names:
        file, mark, rest = text.rpartition(".py:")
        if not mark:
            registered.append(text)
            continue
        name, *options = rest.split("+")
        model = load_model(f"{file}{mark}{name}")
        is_taken = model.name in SDES and SDES[model.name].law is not model.law
        if is_taken or model.name in MODELS or model.name in WALKS:
            msg = f"{text} has the name of another model, {model.name!r}; rename it"
            raise DriftbayesError(msg)
        SDES[model.name] = model
        registered.append("+".join([model.name, *options]))
    return registered
