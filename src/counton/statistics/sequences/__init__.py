"""Statistics of the letters of a text."""
