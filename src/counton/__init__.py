"""counton: differential privacy under continual observation."""
