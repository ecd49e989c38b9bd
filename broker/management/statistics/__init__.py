"""Statistics over time: samples, rates and totals."""
