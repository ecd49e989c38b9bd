-- Exchanges of type x-delayed-message keep messages in the message store. Their ids are of the same sequence as
-- those of queues, because they are keys in the same place. 0: the exchange delays nothing.

ALTER TABLE exchanges ADD COLUMN queue_id INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER exchanges_never_take_a_dead_id BEFORE INSERT ON exchanges
WHEN NEW.queue_id > 0 AND EXISTS (SELECT 1 FROM tombstones WHERE queue_id = NEW.queue_id)
BEGIN
    SELECT RAISE(ABORT, 'this queue id belongs to something deleted');
END;
