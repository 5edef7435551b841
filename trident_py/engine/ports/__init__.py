"""The interfaces through which the machine uses the engines and threads that act for it."""
