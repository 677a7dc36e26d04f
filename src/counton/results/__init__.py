"""What was released, for everybody: tables, charts, words and files, from published values."""
