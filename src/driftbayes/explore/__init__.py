"""Explore: a local web page to try files, models and priors. Import from its modules."""
