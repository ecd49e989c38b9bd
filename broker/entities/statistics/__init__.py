"""Statistics: counters of messages and bytes, totals, histograms. Plain integers, no history."""
