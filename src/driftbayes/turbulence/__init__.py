"""The workshop: forced two-dimensional flow, and the particles in it."""
