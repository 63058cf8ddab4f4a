"""Steps of all particles in one flow at one sampling time."""

from dataclasses import dataclass

from driftbayes._typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class FlowStep:
    """Positions and steps of all particles at one sampling time.

    Args:
        particles: Index of the particle in each row.
        kept: Particles of the previous step that are still present.
        n_new: Number of new particles.
        x: Positions at which the step begins, kept particles first; in 3D if on the earth.
        plane: The same on a plane, for eddies.
        dx: Steps.
        begin_error: Error variance of the fix at which each step begins.
        end_error: Error variance of the fix at which it ends.
    """

    particles: IntArray
    kept: IntArray
    n_new: int
    x: FloatArray
    plane: FloatArray
    dx: FloatArray
    begin_error: FloatArray
    end_error: FloatArray

    def columns(self, *, is_tensor: bool) -> FloatArray:
        """Return the steps by axis; correlated axes are one column, one axis after the other."""
        return self.dx.T.reshape(-1, 1) if is_tensor else self.dx

    def part(self, rows: IntArray, kept: IntArray) -> "FlowStep":
        """Select particles, of which `kept` are among those selected at the previous step."""
        x = self.x[rows]
        return FlowStep(
            *(self.particles[rows], kept, len(rows) - len(kept), x),
            x if self.plane is self.x else self.plane[rows],
            *(self.dx[rows], self.begin_error[rows], self.end_error[rows]),
        )
