"""Routes of users, virtual hosts, permissions, policies, parameters, limits, definitions and health checks."""
