"""The command line: flags of the three stages, and the `solar` command."""
