"""``python -m counton``."""

from counton.cli.__main__ import main

if __name__ == "__main__":
    main()
