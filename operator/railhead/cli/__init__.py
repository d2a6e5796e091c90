"""The command line: one file per command, each with `add_arguments(parser)` and `run(options) -> exit code`."""
