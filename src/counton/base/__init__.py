"""Foundation of all packages: errors, exact numbers, windows of time, tables, private values."""
