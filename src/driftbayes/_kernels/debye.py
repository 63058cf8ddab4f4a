"""Polynomials of Debye's expansion of Bessel functions of large order."""

from fractions import Fraction


def debye_polynomials(n: int) -> list[dict[int, Fraction]]:
    r"""Compute the coefficients of $u_0, \dots, u_{n-1}$ by power; DLMF 10.41.10.

    $$u_{k+1}(t) = \tfrac12 t^2 (1 - t^2) u_k'(t) + \tfrac18 \int_0^t (1 - 5 s^2) u_k(s)\,ds$$

    Args:
        n: Number of polynomials.

    Example:
        >>> debye_polynomials(2)[1]
        {1: Fraction(1, 8), 3: Fraction(-5, 24)}
    """
    found = [{0: Fraction(1)}]
    for _ in range(n - 1):
        following: dict[int, Fraction] = {}
        for power, value in found[-1].items():
            rise = Fraction(power, 2) + Fraction(1, 8 * (power + 1))
            fall = Fraction(power, 2) + Fraction(5, 8 * (power + 3))
            following[power + 1] = following.get(power + 1, Fraction(0)) + value * rise
            following[power + 3] = following.get(power + 3, Fraction(0)) - value * fall
        found.append(following)
    return found
