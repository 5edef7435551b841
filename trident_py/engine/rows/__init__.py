"""Runs batches in this process, without Spark."""
