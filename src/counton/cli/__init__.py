"""The command line. It is thin: commands parse options, call the library, and print."""
