"""`python -m tuplet.cli` is the `tuplet` command."""

from tuplet.cli import main

main()
