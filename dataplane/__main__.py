"""`python -m dataplane` is the command `dataplane`."""

from dataplane.cli import main

if __name__ == "__main__":
    main()
