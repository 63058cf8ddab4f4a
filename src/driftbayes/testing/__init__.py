"""References, models and data for tests of this package or of a model built on it."""

__all__: list[str] = []
