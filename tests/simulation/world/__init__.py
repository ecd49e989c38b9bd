"""The broker of a run, its time, its faults and its wire."""
