-- The users who declared queues and exchanges, for the API; empty for those of earlier releases.

ALTER TABLE queues ADD COLUMN declared_by TEXT NOT NULL DEFAULT '';
ALTER TABLE exchanges ADD COLUMN declared_by TEXT NOT NULL DEFAULT '';
