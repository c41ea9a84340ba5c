"""The streamscribe command, one file per subcommand, no logic."""
