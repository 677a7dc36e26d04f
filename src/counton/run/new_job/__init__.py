"""A first job for a file: what its rows show, and the options that follow."""
