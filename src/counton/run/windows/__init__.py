"""Which windows a run releases, and which of them its input covers."""
