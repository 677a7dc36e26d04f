"""Which rows count, and what each released window adds to the stream."""
