"""What the machine asks of the engines and threads that act for it."""
