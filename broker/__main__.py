"""`python -m broker` is the `leveret` command."""

from broker.cli.main import main

if __name__ == "__main__":
    main()
