"""What jobs, rows and results share: options, windows of time, names of groups, words for dates.

The core needs none of it.
"""
