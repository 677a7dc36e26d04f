"""A service for released series: rows come in by HTTP, releases happen by themselves.

It only parses, calls and answers. Posted rows wait in an inbox, a table in the state's database;
`counton.run` takes them with all its checks, and releases the windows that have ended. Readers
are answered from the journal of releases alone.
"""
