"""The machine of jobs and commits. Pure: it decides, others act."""
