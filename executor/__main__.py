"""Run the command line: ``python -m executor``."""

from executor.cli.main import main

if __name__ == "__main__":
    main()
