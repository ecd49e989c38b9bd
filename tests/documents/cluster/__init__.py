"""The page on clusters of Spark, played on this machine by its own commands."""
