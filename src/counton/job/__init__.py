"""What is asked: a job, its parts and options, what may not go together, and files of jobs."""
