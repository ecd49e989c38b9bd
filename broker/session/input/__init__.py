"""From received bytes to methods."""
