"""What `make demo` and its like run: real data, and the commands that release it."""
