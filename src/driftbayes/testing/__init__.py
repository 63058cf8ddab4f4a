"""What a test of this package, or of a model built on it, can be checked against.

`reference` holds slow, plain NumPy versions of the paper's procedure. They share no code with
the package, so that agreement between the two means something. `strategies` draws models and
data for property tests and needs hypothesis.
"""

__all__: list[str] = []
