"""Operators' actions around a crash: commands, other settings, full disks, copies, harmed files, other releases."""
