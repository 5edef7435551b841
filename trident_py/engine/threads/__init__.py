"""The threads that call spouts, participants and engines."""
