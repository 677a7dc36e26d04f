"""Jobs: the request for one run, with its options, refused combinations of options, and job
files.
"""
