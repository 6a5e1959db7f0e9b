"""`python -m millpond`: the same as the command `millpond`."""

from millpond.cli import main

if __name__ == "__main__":
    main()
