"""Foreign formats, one per file: how to recognise one, and how to read it into the one schema."""

__all__: list[str] = []
