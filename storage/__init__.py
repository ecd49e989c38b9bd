"""The broker's data on disk: messages in LMDB behind a journal, definitions in SQLite, the event log in segments.

Speaks names, integers and bytes; knows neither AMQP nor trio.
"""
