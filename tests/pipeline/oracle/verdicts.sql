-- The audit's verdicts, as docs/event-log.md and docs/jobs.md define them, over the table `events` of an export.
--
-- It is the oracle of pipeline/audit: written from the documents alone, event by event, with nothing reduced first.
-- Statements are separated by semicolons and leave the tables `gap`, `copy_verdict`, `copy_violation`, `lost_on_the_way` and
-- `message_violation`. A moment is boot << 40 | seq.

CREATE TEMP TABLE e AS
SELECT node, boot, seq, (boot::BIGINT << 40) + seq AS m, kind, vhost, queue, connection, channel, msg_id, position,
       redelivered, persistent, reason, exchange, routing_key, detail::JSON AS detail
FROM events;

-- Boots, what the next one records about each, and gaps

CREATE TEMP TABLE boot AS
SELECT node, boot, min(seq) AS first, max(seq) AS last,
       CASE WHEN arg_max(kind, seq) = 'stop' THEN max(m) END AS stop,
       CASE WHEN arg_max(kind, seq) = 'stop' AND (arg_max(detail, seq)->>'complete')::BOOL THEN max(m) END AS full_stop,
       max(m) FILTER (kind = 'snapshot') AS snapshot, bool_or(kind = 'boot' AND seq = 1) AS begun,
       lead(boot) OVER (PARTITION BY node ORDER BY boot) AS next
FROM e GROUP BY node, boot;

CREATE TEMP TABLE record AS
SELECT node, (detail->>'previous_boot')::INT AS boot, max((detail->>'previous_last')::BIGINT) AS logged,
       max((detail->>'previous_known')::BIGINT) AS known, bool_or(coalesce((detail->>'idle_since')::BOOL, false)) AS idle
FROM e WHERE kind = 'boot' GROUP BY ALL;

CREATE TEMP TABLE gap AS
WITH numbered AS (SELECT node, boot, seq, coalesce(lag(seq) OVER (PARTITION BY node, boot ORDER BY seq), 0) AS before FROM e),
     killed AS (
       SELECT boot.*, record.known, record.node IS NULL OR (known = 0 AND next > boot.boot + 1 AND NOT idle) AS untold
       FROM boot LEFT JOIN record USING (node, boot) WHERE stop IS NULL AND next IS NOT NULL)
SELECT node, 'not written' AS kind, boot, before AS after, seq - before - 1 AS lost, true AS doubtful
FROM numbered WHERE seq > before + 1
UNION ALL SELECT node, 'end', boot, last, CASE WHEN NOT untold THEN greatest(known - last, 0) END, untold OR known > last FROM killed
UNION ALL SELECT record.node, 'removed', record.boot, coalesce(last, 0), logged - coalesce(last, 0), true
FROM record LEFT JOIN boot USING (node, boot)
WHERE logged > coalesce(last, 0) AND record.boot >= (SELECT min(b.boot) FROM boot b WHERE b.node = record.node)
UNION ALL SELECT node, 'misplaced', boot, seq - 1, 0, false FROM (
  SELECT e.*, boot.last, lead(kind) OVER (PARTITION BY e.node, e.boot, kind ORDER BY seq) AS again FROM e JOIN boot USING (node, boot)
  WHERE kind IN ('boot', 'stop', 'snapshot'))
WHERE (kind = 'boot' AND seq > 1) OR (kind = 'stop' AND seq < last) OR (kind = 'snapshot' AND again IS NOT NULL)
UNION ALL SELECT node, 'no begin', boot, 0, NULL, true FROM boot WHERE first = 1 AND NOT begun
UNION ALL SELECT node, 'no log', boot + 1, 0, NULL, NOT coalesce(idle, false) FROM boot LEFT JOIN record USING (node, boot)
WHERE next > boot + 1;

-- Columns of tables in macros have names of their own: an argument `m` is the caller's.
CREATE TEMP TABLE hole AS SELECT node AS hole_of, (boot::BIGINT << 40) + after AS hole_at, doubtful AS hole_doubtful,
       kind = 'no log' AND doubtful AS hole_unlogged FROM gap
WHERE kind <> 'misplaced';
CREATE MACRO torn(n, a, b) AS EXISTS (FROM hole WHERE hole_of = n AND hole_at >= a AND hole_at < b);
CREATE MACRO doubt(n, a, b) AS EXISTS (FROM hole WHERE hole_of = n AND hole_at >= a AND hole_at < b AND hole_doubtful);
-- Boots without a log: a restored backup brings back what had ended.
CREATE MACRO unlogged(n, a, b) AS EXISTS (FROM hole WHERE hole_of = n AND hole_at >= a AND hole_at < b AND hole_unlogged);
CREATE MACRO boot_of(m) AS (m >> 40);
CREATE MACRO start_of(m) AS (m >> 40 << 40);
-- What was on disk of a killed boot is what the next one says; of another boot, all.
CREATE TEMP TABLE horizon AS
SELECT node AS horizon_of, boot AS horizon_boot, first = 1 AS horizon_whole,
       CASE WHEN stop IS NULL AND next IS NOT NULL THEN (boot::BIGINT << 40) + coalesce(known, 0) ELSE 1::BIGINT << 62 END AS horizon_at
FROM boot LEFT JOIN record USING (node, boot);
-- The log has everything from the start of the boot of moment `a` up to moment `b`.
CREATE MACRO complete(n, a, b) AS (
  EXISTS (FROM horizon WHERE horizon_of = n AND horizon_boot = boot_of(a) AND horizon_whole) AND NOT doubt(n, start_of(a), b));
CREATE MACRO on_disk(n, a) AS EXISTS (FROM horizon WHERE horizon_of = n AND horizon_boot = boot_of(a) AND a <= horizon_at);

-- Messages

CREATE TEMP TABLE message AS
SELECT node, msg_id, count(*) FILTER (kind = 'publish') AS publishes, count(*) FILTER (kind = 'confirm') AS confirms,
       count(*) FILTER (kind = 'nack') AS nacks, count(*) FILTER (kind = 'return') AS returns,
       count(*) FILTER (kind = 'route') AS routes, min(m) FILTER (kind = 'publish') AS published,
       min(m) FILTER (kind = 'confirm') AS confirmed, min(m) FILTER (kind IN ('confirm', 'nack', 'return')) AS answered,
       coalesce(bool_or(kind = 'publish' AND channel = 0), false) AS own,
       bool_or(kind = 'publish' AND coalesce((detail->>'expires')::BOOL, false)) AS expires,
       bool_or(kind = 'publish' AND coalesce((detail->>'transaction')::BOOL, false)) AS transaction,
       max((detail->>'queues')::INT) FILTER (kind = 'publish') AS queues,
       count(DISTINCT (coalesce(connection, ''), coalesce(channel, 0))) FILTER (kind IN ('publish', 'confirm', 'nack', 'return')) AS parties,
       max(m) FILTER (kind = 'route' AND position = msg_id) AS routed_last,
       min(m) FILTER (kind = 'route' AND position = msg_id) AS arrived, count(*) FILTER (kind = 'route' AND position = msg_id) AS arrivals,
       bool_or(kind = 'publish' AND coalesce(persistent, false)) AS persistent,
       any_value(vhost) FILTER (kind = 'publish') AS vhost, any_value(exchange) FILTER (kind = 'publish') AS exchange,
       any_value(routing_key) FILTER (kind = 'publish') AS routing_key
FROM e WHERE kind IN ('publish', 'route', 'confirm', 'nack', 'return') AND msg_id IS NOT NULL GROUP BY node, msg_id;

CREATE TEMP TABLE message_violation AS
SELECT node, msg_id, unnest(list_filter([
  CASE WHEN confirms > 1 OR nacks > 1 OR returns > 1 THEN 'answered twice' END,
  CASE WHEN confirms > 0 AND nacks > 0 THEN 'confirmed and refused' END,
  CASE WHEN answered < published THEN 'answered before its publish' END,
  CASE WHEN answered IS NOT NULL AND publishes = 0 AND complete(node, msg_id, answered) THEN 'answered, never published' END,
  CASE WHEN answered IS NOT NULL AND publishes > 0 AND (parties > 1 OR boot_of(answered) <> boot_of(msg_id))
       THEN 'answered to another connection' END,
  CASE WHEN publishes > 1 THEN 'published twice' END,
  CASE WHEN returns > 0 AND (routes > 0 OR queues > 0) THEN 'returned, and routed' END,
  CASE WHEN publishes > 0 AND confirmed < routed_last THEN 'confirmed before its route' END,
  CASE WHEN boot_of(published) <> boot_of(msg_id) THEN 'numbered by another boot' END,
  CASE WHEN publishes = 1 AND queues >= 0 AND arrivals > queues THEN 'routed too often' END,
  CASE WHEN arrived < published THEN 'routed before its publish' END], lambda x: x IS NOT NULL)) AS violation
FROM message;

-- Copies: messages in queues that are no streams

CREATE TEMP TABLE c AS
SELECT node, vhost, queue, position, m, kind, redelivered, persistent, reason, msg_id, exchange, routing_key,
       (detail->>'queues')::INT AS queues
FROM e WHERE position >= 1::BIGINT << 40 AND queue IS NOT NULL;

CREATE TEMP TABLE heard AS
FROM c WHERE kind IN ('ack', 'reject', 'expire', 'drop', 'release', 'route', 'deliver', 'requeue', 'queued');

CREATE TEMP TABLE copy AS
SELECT node, vhost, queue, position, min(m) AS first, max(m) AS last, arg_min(kind, m) AS first_kind, arg_max(kind, m) AS last_kind,
       min(m) FILTER (kind = 'route') AS routed, count(*) FILTER (kind = 'route') AS routes,
       arg_min(msg_id, m) FILTER (kind = 'route') AS number, coalesce(bool_or(persistent) FILTER (kind = 'route'), true) AS kept
FROM heard GROUP BY ALL;

-- A message that went to another position of its queue: its route names the former one

CREATE TEMP TABLE move AS
SELECT b.node, b.vhost, b.queue, b.position AS origin, a.position, a.routed AS m
FROM copy a JOIN copy b ON a.node = b.node AND a.vhost = b.vhost AND a.queue = b.queue AND a.number = b.position
WHERE a.number <> a.position;

CREATE TEMP TABLE chain AS
WITH RECURSIVE walk AS (
  SELECT node, vhost, queue, position, position AS origin FROM copy
  UNION
  SELECT w.node, w.vhost, w.queue, w.position, move.origin FROM walk w
  JOIN move ON move.node = w.node AND move.vhost = w.vhost AND move.queue = w.queue AND move.position = w.origin)
SELECT node, vhost, queue, position, min(origin) AS origin FROM walk GROUP BY ALL;

-- Full records of the queues: of starts, and of complete stops

CREATE TEMP TABLE full_record AS
SELECT node, boot, snapshot AS m, true AS of_start, snapshot FROM boot WHERE snapshot IS NOT NULL
UNION ALL SELECT node, boot, full_stop, false, coalesce(snapshot, -1) FROM boot WHERE full_stop IS NOT NULL;

CREATE TEMP TABLE missing AS
SELECT node, vhost, queue, position, min(r.m) AS m
FROM copy JOIN full_record r USING (node)
WHERE r.m > last AND NOT (r.boot = boot_of(last) AND (of_start OR (last_kind = 'queued' AND last > r.snapshot)))
GROUP BY ALL;

-- Ends. A purge or deletion ends what is below it and not held, if it comes before the copy was missing

CREATE TEMP TABLE sweep AS
SELECT copy.node, copy.vhost, copy.queue, copy.position, min(s.m) AS m, arg_min(s.kind, s.m) AS kind
FROM copy JOIN e s ON s.node = copy.node AND s.vhost = copy.vhost AND s.queue = copy.queue AND s.kind IN ('purge', 'delete')
WHERE s.m > copy.first AND copy.position < (s.detail->>'below')::BIGINT
  AND NOT list_contains((s.detail->'kept')::BIGINT[], copy.position)
GROUP BY ALL;

CREATE TEMP TABLE ending AS
SELECT node, vhost, queue, position, m, kind, reason, true AS told FROM heard
WHERE kind IN ('ack', 'reject', 'expire', 'drop', 'release')
UNION ALL SELECT s.node, s.vhost, s.queue, s.position, s.m, s.kind, NULL, false FROM sweep s
LEFT JOIN missing USING (node, vhost, queue, position) WHERE missing.m IS NULL OR s.m <= missing.m
UNION ALL SELECT node, vhost, queue, origin, m, 'move', NULL, false FROM move;

-- A kill may undo a deletion, which is written with the definitions: then a queue of that name is declared before the next full record
CREATE TEMP TABLE undone AS
SELECT d.node, d.vhost, d.queue, d.m FROM e d JOIN boot ON boot.node = d.node AND boot.boot = d.boot
WHERE d.kind = 'delete' AND boot.stop IS NULL AND next IS NOT NULL AND EXISTS (
  FROM e r WHERE r.node = d.node AND r.vhost = d.vhost AND r.queue = d.queue AND r.kind = 'declare' AND r.boot > d.boot
  AND NOT EXISTS (FROM e s WHERE s.node = d.node AND s.kind = 'snapshot' AND s.boot > d.boot AND s.m < r.m));

CREATE TEMP TABLE fate AS
SELECT node, vhost, queue, position,
       min(m) FILTER (on_disk(node, m) AND (node, vhost, queue, m) NOT IN (SELECT (node, vhost, queue, m) FROM undone)) AS certain, max(m) AS latest,
       min(m) FILTER (told) AS died, arg_min(kind, m) FILTER (told) AS died_by, arg_min(coalesce(reason, ''), m) FILTER (told) AS died_of,
       max(m) FILTER (told OR kind = 'move') AS settled
FROM ending GROUP BY ALL;

CREATE TEMP TABLE known AS
SELECT copy.*, chain.origin, chain.origin <> copy.position AS moved,
       CASE WHEN chain.origin <> copy.position THEN chain.origin ELSE copy.number END AS message_number,
       max(copy.last) OVER (PARTITION BY copy.node, copy.vhost, copy.queue, chain.origin) AS last_of_chain,
       missing.m AS absent, fate.certain, fate.latest, fate.died, fate.died_by, fate.died_of
FROM copy JOIN chain USING (node, vhost, queue, position)
LEFT JOIN missing USING (node, vhost, queue, position) LEFT JOIN fate USING (node, vhost, queue, position);

CREATE TEMP TABLE judged AS
SELECT known.*, CASE WHEN NOT moved THEN routed END AS came, p.published, p.confirmed, coalesce(p.own, false) AS own, coalesce(p.expires, false) AS expires,
  coalesce(p.persistent, false) AS persistent,
  routed IS NULL AND first_kind <> 'queued' AND complete(known.node, known.position, first)
    AND EXISTS (FROM heard d WHERE d.node = known.node AND d.vhost = known.vhost AND d.queue = known.queue
                AND d.position = known.position AND d.kind = 'deliver') AS phantom
FROM known LEFT JOIN message p ON p.node = known.node AND p.msg_id = known.message_number;

CREATE TEMP TABLE copy_verdict AS
SELECT node, vhost, queue, position, message_number, CASE
  WHEN certain IS NOT NULL OR (latest IS NOT NULL AND (absent IS NOT NULL OR latest >= last)) THEN 'settled'
  WHEN absent IS NULL THEN 'queued'
  WHEN NOT kept THEN 'not kept'
  WHEN doubt(node, last, absent) THEN 'unknown'
  WHEN routed IS NULL AND NOT phantom THEN 'lost'
  WHEN routed IS NOT NULL AND confirmed IS NOT NULL AND (NOT moved OR last_of_chain <= last) THEN 'lost'
  WHEN routed IS NOT NULL AND (own OR moved) AND EXISTS (
    FROM heard r WHERE r.node = judged.node AND r.vhost = judged.vhost AND r.queue = judged.queue
    AND r.position = judged.position AND r.kind = 'route' AND on_disk(r.node, r.m)) THEN 'lost'
  ELSE 'not confirmed' END AS verdict
FROM judged;

-- Arguments in force: from each declaration or policy of a boot to the next, or to the deletion of the queue

CREATE TEMP TABLE setting AS
SELECT *, CASE WHEN gone THEN ['gone'] ELSE list_filter([
    CASE WHEN set_type = 'delay' THEN 'delay' END, CASE WHEN set_type = 'quorum' THEN 'quorum' END, CASE WHEN durable THEN 'durable' END,
    CASE WHEN (json_exists(set_to, '$."max-length"') OR json_exists(set_to, '$."max-length-bytes"'))
      AND NOT (refuses AND (set_by = 'declare' OR set_type <> 'classic' OR refused)) THEN 'length' END,
    CASE WHEN json_exists(set_to, '$."message-ttl"') THEN 'message-ttl' END,
    CASE WHEN json_exists(set_to, '$."delivery-limit"') THEN 'delivery-limit' END,
    CASE WHEN set_to->>'$."dead-letter-strategy"' = 'at-least-once' THEN 'waits' END,
    'to:' || (set_to->>'$."dead-letter-exchange"'), CASE WHEN NOT json_exists(set_to, '$."dead-letter-exchange"') THEN 'to nowhere' END,
    'key:' || (set_to->>'$."dead-letter-routing-key"'),
    CASE WHEN NOT json_exists(set_to, '$."dead-letter-routing-key"') THEN 'without a key' END], lambda x: x IS NOT NULL) END AS has
FROM (SELECT *, lag(refuses) OVER (PARTITION BY set_on, set_in, set_for ORDER BY set_at) AS refused FROM (
  SELECT *, coalesce(set_to->>'$.overflow' = 'reject-publish' OR (set_type = 'classic' AND set_to->>'$.overflow' = 'reject-publish-dlx'),
                     false) AS refuses FROM (
  SELECT node AS set_on, vhost AS set_in, queue AS set_for, m AS set_at, kind = 'delete' AS gone, kind AS set_by, detail->'arguments' AS set_to,
         lead(m) OVER (PARTITION BY node, vhost, queue, m >> 40 ORDER BY m) AS set_until,
         last_value(CASE WHEN kind = 'declare' THEN detail->>'type' END IGNORE NULLS) OVER w AS set_type,
         last_value(CASE WHEN kind = 'declare' THEN (detail->>'durable')::BOOL END IGNORE NULLS) OVER w AS durable,
         count(*) FILTER (kind = 'declare') OVER (PARTITION BY node, vhost, queue) AS declared
  FROM e WHERE kind IN ('declare', 'policy', 'delete') WINDOW w AS (PARTITION BY node, vhost, queue ORDER BY m))));
CREATE MACRO told(n, v, q) AS (
  EXISTS (FROM setting WHERE set_on = n AND set_in = v AND set_for = q AND declared > 0)
  AND NOT EXISTS (FROM setting WHERE set_on = n AND set_in = v AND set_for = q AND NOT gone AND set_to IS NULL));
CREATE MACRO told_between(n, v, q, a, b) AS told(n, v, q) AND EXISTS (
  FROM setting WHERE set_on = n AND set_in = v AND set_for = q AND set_at < b
  AND (set_at >= a OR (boot_of(set_at) = boot_of(a) AND coalesce(set_until >= a, true))));
CREATE MACRO had(n, v, q, a, b, what) AS EXISTS (
  FROM setting WHERE set_on = n AND set_in = v AND set_for = q AND set_at < b AND list_contains(has, what)
  AND (set_at >= a OR (boot_of(set_at) = boot_of(a) AND coalesce(set_until >= a, true))));
CREATE MACRO lacked(n, v, q, a, b, what) AS (told_between(n, v, q, a, b) AND NOT had(n, v, q, a, b, what));
-- The time in which a copy could get what it had at a moment of its death: in that boot.
CREATE MACRO since(routed, died) AS greatest(coalesce(routed, 0), start_of(died));

-- Violations of copies

CREATE TEMP TABLE step AS
SELECT *, lag(kind) OVER w AS before, lag(m) OVER w AS before_m
FROM heard WHERE kind IN ('deliver', 'ack', 'reject', 'requeue', 'expire', 'drop', 'release')
WINDOW w AS (PARTITION BY node, vhost, queue, position, m >> 40 ORDER BY m);

CREATE TEMP TABLE delivery AS
SELECT d.*, row_number() OVER (PARTITION BY node, vhost, queue, position ORDER BY m) AS nth FROM heard d WHERE kind = 'deliver';

CREATE TEMP TABLE death AS
SELECT node, vhost, queue, position, count(*) FILTER (kind = 'deadletter') AS deaths,
       count(*) FILTER (kind = 'deadletter' AND queues > 0) AS due, max(m) FILTER (kind = 'deadletter') AS last,
       arg_min(coalesce(reason, ''), m) FILTER (kind = 'deadletter') AS reason,
       arg_min(coalesce(exchange, ''), m) FILTER (kind = 'deadletter') AS exchange,
       count(*) FILTER (kind = 'publish') AS letters, max(m) FILTER (kind = 'publish') AS letter,
       arg_min(coalesce(exchange, ''), m) FILTER (kind = 'publish') AS letter_to,
       arg_min(coalesce(routing_key, ''), m) FILTER (kind = 'publish') AS letter_key
FROM c WHERE kind IN ('deadletter', 'publish') GROUP BY ALL;

CREATE TEMP TABLE strange AS
SELECT node, vhost, queue, position, phantom,
       routed IS NOT NULL AND published IS NULL AND NOT moved AND complete(node, message_number, routed)
         AND lacked(node, vhost, queue, 0, routed + 8192, 'waits') AS unannounced,
       coalesce(first < routed, false) AS early
FROM judged;

CREATE TEMP TABLE in_order AS
SELECT d.node, d.vhost, d.queue, d.position, d.m >> 40 AS boot, min(d.m) AS first, max(d.m) AS last
FROM delivery d JOIN strange USING (node, vhost, queue, position)
WHERE NOT d.redelivered AND NOT phantom AND NOT unannounced AND NOT early AND EXISTS (
  FROM e q WHERE q.node = d.node AND q.vhost = d.vhost AND q.queue = d.queue AND q.kind = 'declare'
  AND (q.detail->>'max_priority')::INT = 0 AND q.detail->>'type' IN ('classic', 'quorum'))
GROUP BY ALL;

CREATE TEMP TABLE overtaken AS
SELECT node, vhost, queue, position FROM (
  SELECT *, min(first) OVER (PARTITION BY node, vhost, queue, boot ORDER BY position DESC
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above FROM in_order)
WHERE last > above;

CREATE TEMP TABLE copy_violation AS
WITH again AS (
  SELECT DISTINCT node, vhost, queue, position FROM judged JOIN delivery d USING (node, vhost, queue, position)
  GROUP BY node, vhost, queue, position, certain HAVING max(d.m) > certain AND NOT unlogged(node, certain, max(d.m))),
twice AS (
  SELECT node, vhost, queue, position FROM ending WHERE told GROUP BY node, vhost, queue, position, m >> 40 HAVING count(*) > 1
  UNION SELECT node, vhost, queue, position FROM judged JOIN ending t USING (node, vhost, queue, position)
  WHERE t.told GROUP BY node, vhost, queue, position, certain HAVING max(t.m) > certain AND NOT unlogged(node, certain, max(t.m)))
SELECT node, vhost, queue, position, 'delivered after its end' AS violation FROM again
UNION SELECT h.node, h.vhost, h.queue, h.position, 'there again after its end' FROM judged JOIN (
  SELECT node, vhost, queue, position, max(m) AS m FROM heard WHERE kind = 'queued' GROUP BY ALL) h USING (node, vhost, queue, position)
LEFT JOIN boot ON boot.node = h.node AND boot.boot = boot_of(h.m)
WHERE NOT unlogged(h.node, certain, h.m) AND (boot_of(h.m) > boot_of(certain) OR (boot_of(h.m) = boot_of(certain) AND h.m > certain AND h.m > snapshot))
UNION SELECT node, vhost, queue, position, 'settled twice' FROM (FROM twice EXCEPT FROM again)
UNION SELECT node, vhost, queue, position, 'delivered twice as new' FROM delivery
GROUP BY node, vhost, queue, position
HAVING count(*) FILTER (NOT redelivered) > count(DISTINCT m >> 40)
UNION SELECT node, vhost, queue, position, 'delivered as new after a restart' FROM delivery
WHERE NOT redelivered GROUP BY node, vhost, queue, position
HAVING boot_of(min(m) FILTER (on_disk(node, m))) < boot_of(max(m)) AND NOT unlogged(node, min(m) FILTER (on_disk(node, m)), max(m))
UNION FROM (SELECT *, 'out of order' FROM overtaken)
UNION SELECT node, vhost, queue, position, 'two holders at once' FROM step
WHERE kind = 'deliver' AND before = 'deliver' AND NOT torn(node, before_m, m)
UNION SELECT node, vhost, queue, position, 'gone while a consumer had it' FROM step
WHERE kind IN ('expire', 'drop', 'release') AND before = 'deliver' AND NOT torn(node, before_m, m)
UNION SELECT node, vhost, queue, position, 'settled, not delivered' FROM (
  SELECT node, vhost, queue, position FROM step
  WHERE kind IN ('ack', 'reject', 'requeue') AND (before IS NULL OR before = 'requeue')
    AND NOT torn(node, coalesce(before_m, start_of(m)), m)
  EXCEPT (FROM twice EXCEPT FROM again))
UNION SELECT node, vhost, queue, position, 'delivered, never published' FROM strange WHERE phantom
UNION SELECT node, vhost, queue, position, 'routed, never published' FROM strange WHERE unannounced
UNION SELECT node, vhost, queue, position, 'recorded, never published' FROM judged JOIN heard h USING (node, vhost, queue, position)
WHERE routed IS NULL AND h.kind = 'queued' AND complete(node, position, first)
UNION SELECT node, vhost, queue, position, 'delivered before its route' FROM strange WHERE early
UNION SELECT node, vhost, queue, position, 'routed twice' FROM copy WHERE routes > 1
UNION SELECT node, vhost, queue, position, 'first delivery marked as redelivered'
FROM judged JOIN delivery d USING (node, vhost, queue, position)
WHERE d.nth = 1 AND d.redelivered AND routed < d.m AND boot_of(routed) = boot_of(d.m) AND published IS NOT NULL
  AND NOT own AND NOT moved AND NOT torn(node, routed, d.m)
UNION SELECT node, vhost, queue, position, 'expired without a time to live' FROM judged
WHERE died_by = 'expire' AND published IS NOT NULL AND NOT expires AND complete(node, coalesce(came, message_number), died)
  AND lacked(node, vhost, queue, coalesce(came, 0), died, 'message-ttl')
UNION SELECT node, vhost, queue, position, 'dropped without a limit' FROM judged
WHERE died_by = 'drop' AND complete(node, died, died)
  AND (died_of = 'delivery_limit' OR lacked(node, vhost, queue, since(routed, died), died, 'length'))
  AND (died_of = 'maxlen' OR lacked(node, vhost, queue, since(routed, died), died, 'delivery-limit'))
UNION SELECT node, vhost, queue, position, 'dropped without a limit' FROM judged
WHERE died_by = 'drop' AND died_of = 'delivery_limit' AND published IS NOT NULL AND NOT own AND came IS NOT NULL
  AND NOT EXISTS (FROM delivery d WHERE d.node = judged.node AND d.vhost = judged.vhost AND d.queue = judged.queue AND d.position = judged.position)
  AND NOT torn(node, routed, died)
UNION SELECT node, vhost, queue, position, 'released without a delay' FROM judged LEFT JOIN death USING (node, vhost, queue, position)
WHERE died_by = 'release' AND coalesce(letters, 0) = 0 AND complete(node, coalesce(came, message_number), died)
  AND lacked(node, vhost, queue, coalesce(came, 0), died, 'delay') AND lacked(node, vhost, queue, coalesce(came, 0), died, 'waits')
UNION SELECT node, vhost, queue, position, 'died without its dead letter' FROM judged LEFT JOIN death USING (node, vhost, queue, position)
WHERE died_by IN ('reject', 'expire', 'drop') AND coalesce(deaths, 0) = 0
  AND lacked(node, vhost, queue, since(routed, died), died, 'to nowhere') AND complete(node, died, died) AND NOT torn(node, died, died + 8192)
UNION SELECT node, vhost, queue, position, 'dead letter unlike its death' FROM judged JOIN death d USING (node, vhost, queue, position)
WHERE d.deaths > 0 AND (
  (lacked(node, vhost, queue, since(routed, d.last), d.last, 'to:' || d.exchange) AND complete(node, d.last, d.last))
  OR (NOT (coalesce(died_by, '') IN ('reject', 'expire', 'drop') AND coalesce(died_of, '') = d.reason) AND NOT torn(node, first, d.last))
  OR (letter_to <> d.exchange AND lacked(node, vhost, queue, 0, letter, 'waits'))
  OR (lacked(node, vhost, queue, since(routed, letter), letter, 'key:' || letter_key)
    AND lacked(node, vhost, queue, since(routed, letter), letter, 'without a key') AND lacked(node, vhost, queue, 0, letter, 'waits')))
UNION SELECT node, vhost, queue, position, 'dead letter unlike its death' FROM judged k JOIN death d USING (node, vhost, queue, position)
WHERE d.deaths = 0 AND k.last > letter AND coalesce(died_by, '') <> 'release' AND lacked(node, vhost, queue, 0, letter, 'waits')
  AND NOT torn(node, first, letter) AND NOT torn(node, letter, letter + 8192)
UNION SELECT node, vhost, queue, position, 'absent from a record, and back' FROM (
  SELECT *, lead(first) OVER (PARTITION BY node, vhost, queue, position ORDER BY boot) AS again FROM (
    SELECT node, vhost, queue, position, m >> 40 AS boot, min(m) AS first, max(m) AS last, arg_max(kind, m) AS kind FROM heard GROUP BY ALL)) l
WHERE EXISTS (FROM copy WHERE copy.node = l.node AND copy.vhost = l.vhost AND copy.queue = l.queue AND copy.position = l.position AND kept)
  AND EXISTS (
    FROM full_record r LEFT JOIN fate f ON f.node = l.node AND f.vhost = l.vhost AND f.queue = l.queue AND f.position = l.position
    WHERE r.node = l.node AND r.m > l.last AND r.m < again AND coalesce(certain > r.m, true)
    AND NOT (r.boot = l.boot AND (of_start OR (l.kind = 'queued' AND l.last > r.snapshot)))
    QUALIFY row_number() OVER (ORDER BY r.m) = 1 AND NOT doubt(l.node, l.last, r.m))
UNION SELECT node, vhost, queue, position, 'routed into a deleted queue' FROM judged WHERE had(node, vhost, queue, routed, routed, 'gone')
  AND told(node, vhost, queue)
UNION SELECT node, vhost, queue, position, 'in its queue twice' FROM judged
WHERE moved AND (lacked(node, vhost, queue, 0, routed, 'quorum') OR EXISTS (
  FROM ending t WHERE t.node = judged.node AND t.vhost = judged.vhost AND t.queue = judged.queue AND t.position = judged.number
    AND t.kind <> 'move' AND on_disk(t.node, t.m) AND t.m < judged.routed
    AND (lacked(t.node, t.vhost, t.queue, 0, judged.routed, 'waits') OR NOT EXISTS (
      FROM fate f WHERE f.node = t.node AND f.vhost = t.vhost AND f.queue = t.queue AND f.position = t.position
      AND f.died_by IN ('reject', 'expire', 'drop')))))
UNION SELECT node, vhost, queue, position, 'persistent, and not kept' FROM judged
WHERE persistent AND NOT kept AND told(node, vhost, queue) AND had(node, vhost, queue, routed, routed, 'durable')
UNION SELECT node, vhost, queue, position, 'its dead letter never came' FROM copy JOIN death d USING (node, vhost, queue, position)
WHERE d.due > d.letters AND NOT torn(node, d.last, d.last + 8192)
UNION SELECT node, vhost, queue, position, 'its dead letter came twice' FROM copy JOIN death d USING (node, vhost, queue, position)
WHERE d.letters > greatest(d.deaths, 1);

-- Confirmed messages that never came into a queue they had to reach

CREATE TEMP TABLE sent AS
SELECT *, complete(node, published, published) AS whole FROM message
WHERE published IS NOT NULL AND confirmed IS NOT NULL AND NOT own AND NOT torn(node, published, least(confirmed, published + 8192));

CREATE TEMP TABLE bound AS
SELECT b.node, b.vhost, b.queue, b.exchange, b.routing_key AS key, b.detail->>'type' AS type, boot_of(b.m) AS boot
FROM e b WHERE b.kind = 'bind' AND b.queue IS NOT NULL
UNION SELECT node, vhost, queue, '', queue, 'direct', boot_of(m) FROM e WHERE kind = 'declare';

CREATE TEMP TABLE led AS
SELECT DISTINCT s.node, s.msg_id, b.vhost, b.queue
FROM sent s JOIN bound b ON b.node = s.node AND b.vhost = s.vhost AND b.exchange = s.exchange AND b.boot = boot_of(s.published)
WHERE s.whole AND NOT s.transaction AND instr(s.exchange, '\x') = 0
  AND (b.type = 'fanout' OR (instr(b.key || s.routing_key, '\x') = 0
    AND ((b.type IN ('direct', 'topic') AND b.key = s.routing_key)
      OR (b.type = 'topic' AND regexp_full_match(
        CASE WHEN s.routing_key = '' THEN '' ELSE '.' || s.routing_key END,
        array_to_string(list_transform(string_split(b.key, '.'), lambda w: CASE w
          WHEN '#' THEN '(\.[^.]*)*' WHEN '*' THEN '\.[^.]*' ELSE '\.' || regexp_escape(w) END), ''), 's')))))
  -- The queue is a classic or quorum one, declared before and not deleted since; the binding began and has not ended.
  AND EXISTS (FROM e d WHERE d.node = s.node AND d.vhost = b.vhost AND d.queue = b.queue AND d.kind IN ('declare', 'delete')
              AND d.m < s.published AND boot_of(d.m) = b.boot
              QUALIFY row_number() OVER (ORDER BY d.m DESC) = 1 AND d.kind = 'declare' AND d.detail->>'type' IN ('classic', 'quorum'))
  AND NOT EXISTS (FROM e u WHERE u.node = s.node AND u.vhost = b.vhost AND u.kind = 'unbind' AND u.exchange = ''
                  AND u.m < s.published AND u.m > (
                    SELECT max(d.m) FROM e d WHERE d.node = s.node AND d.vhost = b.vhost AND d.queue = b.queue
                    AND d.kind = 'declare' AND d.m < s.published))
  AND (b.exchange = '' OR 0 < (
    SELECT sum(CASE u.kind WHEN 'bind' THEN 1 ELSE -1 END) FROM e u
    WHERE u.node = s.node AND u.vhost = b.vhost AND u.queue = b.queue AND u.exchange = b.exchange AND u.routing_key = b.key
    AND u.kind IN ('bind', 'unbind') AND u.detail->>'type' = b.type AND u.m < s.published AND boot_of(u.m) = b.boot
    AND u.m > (SELECT max(d.m) FROM e d WHERE d.node = s.node AND d.vhost = b.vhost AND d.queue = b.queue AND d.kind = 'declare'
               AND d.m < s.published AND boot_of(d.m) = b.boot)));

CREATE TEMP TABLE lost_on_the_way AS
SELECT node, vhost, queue, msg_id FROM led
WHERE NOT EXISTS (FROM judged j WHERE j.node = led.node AND j.vhost = led.vhost AND j.queue = led.queue
                  AND j.message_number = led.msg_id AND j.routed IS NOT NULL);
INSERT INTO lost_on_the_way
SELECT node, NULL, NULL, msg_id FROM sent WHERE routes < queues AND (node, msg_id) NOT IN (SELECT (node, msg_id) FROM lost_on_the_way);
