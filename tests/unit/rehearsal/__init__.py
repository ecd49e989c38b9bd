"""Tests of the rehearsal of files."""
