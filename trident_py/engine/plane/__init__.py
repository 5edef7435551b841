"""The state machine of jobs and commits. Pure: it decides, other components act."""
