"""`python -m broker.rabbitmq.container` is the entry point of the image."""

from broker.rabbitmq.container.entry_point import main

if __name__ == "__main__":
    main()
