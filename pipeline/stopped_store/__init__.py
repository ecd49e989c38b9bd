"""The messages and definitions of a stopped broker's data directory, as rows and Parquet files."""
