"""The foundation of all rooms: errors, exact numbers, windows, tables, sealed values."""
