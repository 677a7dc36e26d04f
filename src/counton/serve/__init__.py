"""A service for released series: rows come in by HTTP, releases happen by themselves.

Like the command line, it only parses, calls and answers. Posted rows wait in an inbox, a table in
the database of the stream's state. `counton.run.run` takes them from there, with all its checks,
and releases the windows that have ended. Answers to readers come from the journal of releases
alone.
"""
