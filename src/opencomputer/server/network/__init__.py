"""What machines may reach, and by which way."""
