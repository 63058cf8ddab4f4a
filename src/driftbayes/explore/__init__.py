"""Explore: a local web page to try files, models and priors on.

Import from its modules: the command line asks for sizes before anything heavy is loaded.
"""
