"""The command line. Thin: commands parse, call and print."""
