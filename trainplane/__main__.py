"""`python -m trainplane` is the command `trainplane`."""

from trainplane.cli import main

if __name__ == "__main__":
    main()
