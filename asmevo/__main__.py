"""`python -m asmevo`."""

from asmevo.cli import main

main()
