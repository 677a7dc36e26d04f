"""A service for released series: rows come in by HTTP, releases happen by themselves.

A door as the command line is: it parses, calls and answers. Rows that are posted wait in an inbox
beside the stream, in the state's own database; `counton.run.run` takes them from there, with every
guard that it has, and releases the windows that have ended. Whoever reads is answered from the
journal alone.
"""
