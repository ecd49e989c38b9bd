"""Where the broker's data lives: messages in LMDB, definitions in SQLite.

Speaks names, integers and bytes; knows neither AMQP nor trio.
"""
