"""What is read from the journal and written: files of a run, exports and views."""
