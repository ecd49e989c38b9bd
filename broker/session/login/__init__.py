"""Who a client is: handshake, SASL, passwords, certificates, throttling of wrong logins."""
