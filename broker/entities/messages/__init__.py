"""Messages, and the headers that the broker writes into them."""
