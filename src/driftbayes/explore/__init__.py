"""Local web page to try files, models and priors."""
