"""What can be added to a model: measurement errors, flows, a tensor, rotation, populations."""
