"""What must be installed to read a format, said before the format's library says it worse."""

__all__ = ["require"]

from importlib import import_module

from driftbayes.errors import DriftbayesError
from driftbayes.io.paths import reason


def require(what: str, *packages: str) -> None:
    """Refuse, with the command that helps, if a package cannot be imported.

    Args:
        what: What needs the packages, in the plural: "NetCDF files".
        *packages: Names of the packages, the same for `import` and for `pip install`.
    """
    for package in packages:
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            # A package may be there and lack one that it needs itself.
            missing = (error.name or package).partition(".")[0]
            msg = (
                f"{what} need the package {missing}, which is not installed; "
                f"run: pip install {missing}"
            )
            raise DriftbayesError(msg) from error
        except ImportError as error:
            msg = (
                f"{what} need the package {package}, which is installed but broken "
                f"({reason(error)}); run: pip install --force-reinstall {package}"
            )
            raise DriftbayesError(msg) from error
