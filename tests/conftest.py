"""Puts this folder into the import path: `small_bundle` serves the tests of several stages."""
