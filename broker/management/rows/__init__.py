"""Tables of columns of the HTTP API: those of admin/views, with statistics, and those that belong to HTTP alone."""
