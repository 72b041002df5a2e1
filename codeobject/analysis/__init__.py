"""Analyses of instruction sequences. Each answers or refuses with a reason."""
