"""What was counted in the past: samples, rates and totals."""
