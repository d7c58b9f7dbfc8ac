"""`ucudnn ...` and `python -m ucudnn ...`: replaces this process by the command."""
import os
import sys

from ucudnn import COMMAND


def main():
    os.execv(COMMAND, ["ucudnn", *sys.argv[1:]])


if __name__ == "__main__":
    main()
