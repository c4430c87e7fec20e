"""`python -m roost`, for where the `roost` command is not on the path."""

from roost.cli.main import main

if __name__ == "__main__":
    main()
