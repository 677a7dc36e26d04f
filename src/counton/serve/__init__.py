"""A service for released series: rows come in by HTTP, releases happen by themselves.

Like the command line, it only parses, calls and answers. Posted rows wait in an inbox beside the
stream, in the state's own database. `counton.run.run` takes them from there, with all its checks,
and releases the windows that have ended. Answers to readers come from the journal alone.
"""
