"""What people type and read: command parts, progress, views of runs."""
