"""Where counton meets other libraries: event data through polars. Each needs its own extra."""
