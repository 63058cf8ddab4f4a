"""Model options: measurement error, flows, anisotropy, rotation, populations."""
