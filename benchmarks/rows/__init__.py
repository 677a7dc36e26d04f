"""One file per group of rows: its ``measure()`` yields them. Adding a file adds rows."""
