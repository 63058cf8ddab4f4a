"""References and data for tests of this package and of models built on it."""

__all__: list[str] = []
