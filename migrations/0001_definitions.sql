-- What exists and who may use it. Durable entities only; exclusive and transient ones live in memory.
--
-- A name column holds TEXT when the name is UTF-8 and a BLOB of its bytes when it is not: AMQP's short strings
-- are any bytes, and two different names must stay different. `arguments` is an AMQP field table, encoded.
-- Tables keep their rowid, so that reading in its order gives the order of creation.

PRAGMA application_id = 0x4c565254;

CREATE TABLE metadata (
    key   TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
);

-- The same identity is written into the message store: one without the other is refused.
INSERT INTO metadata (key, value) VALUES ('store_uuid', randomblob(16));

CREATE TABLE vhosts (
    name               TEXT NOT NULL UNIQUE,
    description        TEXT NOT NULL,
    tags               TEXT NOT NULL,  -- JSON list of texts
    default_queue_type TEXT NOT NULL   -- empty: classic
);

CREATE TABLE users (
    name              TEXT NOT NULL UNIQUE,
    password_hash     TEXT NOT NULL,  -- empty: no log-in with a password
    hashing_algorithm TEXT NOT NULL,
    tags              TEXT NOT NULL   -- JSON list of texts
);

CREATE TABLE permissions (
    "user"    TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    vhost     TEXT NOT NULL REFERENCES vhosts (name) ON DELETE CASCADE,
    configure TEXT NOT NULL,
    write     TEXT NOT NULL,
    read      TEXT NOT NULL,
    UNIQUE ("user", vhost)
);

CREATE TABLE topic_permissions (
    "user"   TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    vhost    TEXT NOT NULL REFERENCES vhosts (name) ON DELETE CASCADE,
    exchange TEXT NOT NULL,
    write    TEXT NOT NULL,
    read     TEXT NOT NULL,
    UNIQUE ("user", vhost, exchange)
);

CREATE TABLE exchanges (
    vhost       TEXT NOT NULL REFERENCES vhosts (name) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    type        TEXT NOT NULL,
    auto_delete INTEGER NOT NULL,
    internal    INTEGER NOT NULL,
    arguments   BLOB NOT NULL,
    UNIQUE (vhost, name)
);

-- The id is the queue's key in the message store. AUTOINCREMENT: an id that was ever used is never given again.
CREATE TABLE queues (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    vhost       TEXT NOT NULL REFERENCES vhosts (name) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    auto_delete INTEGER NOT NULL,
    arguments   BLOB NOT NULL,
    UNIQUE (vhost, name)
);

CREATE TABLE bindings (
    vhost            TEXT NOT NULL REFERENCES vhosts (name) ON DELETE CASCADE,
    source           TEXT NOT NULL,
    destination      TEXT NOT NULL,
    destination_kind TEXT NOT NULL CHECK (destination_kind IN ('queue', 'exchange')),
    routing_key      TEXT NOT NULL,
    arguments        BLOB NOT NULL,
    UNIQUE (vhost, destination_kind, destination, source, routing_key, arguments)
);

CREATE INDEX bindings_by_source ON bindings (vhost, source);

CREATE TABLE policies (
    vhost      TEXT NOT NULL REFERENCES vhosts (name) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    operator   INTEGER NOT NULL,  -- 1: an operator policy, in a namespace of its own
    pattern    TEXT NOT NULL,
    apply_to   TEXT NOT NULL,
    definition TEXT NOT NULL,     -- JSON object
    priority   INTEGER NOT NULL,
    UNIQUE (vhost, name, operator)
);

CREATE TABLE parameters (
    vhost     TEXT NOT NULL REFERENCES vhosts (name) ON DELETE CASCADE,
    component TEXT NOT NULL,
    name      TEXT NOT NULL,
    value     TEXT NOT NULL,  -- JSON
    UNIQUE (vhost, component, name)
);

CREATE TABLE global_parameters (
    name  TEXT NOT NULL UNIQUE,
    value TEXT NOT NULL       -- JSON
);

CREATE TABLE vhost_limits (
    vhost TEXT NOT NULL REFERENCES vhosts (name) ON DELETE CASCADE,
    name  TEXT NOT NULL,
    value INTEGER NOT NULL,
    UNIQUE (vhost, name)
);

CREATE TABLE user_limits (
    "user" TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    name   TEXT NOT NULL,
    value  INTEGER NOT NULL,
    UNIQUE ("user", name)
);

-- Queues that were deleted here and whose messages may still be in the message store. Only what stands here is
-- swept at a start, so that a lost or exchanged definitions file never erases a message.
CREATE TABLE tombstones (
    queue_id INTEGER NOT NULL PRIMARY KEY
);

CREATE TRIGGER queues_never_take_a_dead_id BEFORE INSERT ON queues
WHEN EXISTS (SELECT 1 FROM tombstones WHERE queue_id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'this queue id belongs to a deleted queue');
END;
