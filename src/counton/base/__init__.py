"""What everything rests on: errors, exact numbers, windows, tables, sealed values."""
