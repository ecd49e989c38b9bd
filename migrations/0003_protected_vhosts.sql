-- A virtual host may be protected from deletion, as in RabbitMQ since 4.0.

ALTER TABLE vhosts ADD COLUMN protected_from_deletion INTEGER;  -- 1 or 0; NULL: nobody has said so
