"""Figures of releases: measured in one sitting, kept in one data file, shown as table and picture."""
