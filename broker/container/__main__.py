"""`python -m broker.container` is the entry point of the image."""

from broker.container.entry_point import main

if __name__ == "__main__":
    main()
