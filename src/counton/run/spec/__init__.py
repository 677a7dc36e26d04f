"""What a stream is: a job parsed into typed values, the specification kept, and its plan."""
