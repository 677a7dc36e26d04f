"""Foundation of all packages: errors, exact numbers, distributions, tables, private values."""
