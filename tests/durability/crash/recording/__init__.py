"""Recorded lives of brokers and stores, and what each promised."""
