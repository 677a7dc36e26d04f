"""Jobs: their parts and options, refused combinations of options, and job files."""
