-- Offsets that groups of consumers have committed in streams: for lists and metrics, nothing is delivered by them.

CREATE TABLE stream_offsets (
    queue_id     INTEGER NOT NULL REFERENCES queues (id) ON DELETE CASCADE,
    "group"      TEXT NOT NULL,
    "offset"     INTEGER NOT NULL,  -- of the message to be read next
    committed_at INTEGER NOT NULL,  -- milliseconds since the epoch
    UNIQUE (queue_id, "group")
);
