"""The views of a topology for other threads and processes: status, events, stored description, leader."""
