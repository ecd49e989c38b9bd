"""What is measured, one file for each row."""
