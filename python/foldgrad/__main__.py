"""The program `foldgrad`."""
import signal
import sys

from foldgrad import _core


def main() -> int:
    """Runs the program with this process's arguments and returns its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # commands that must handle Ctrl-C install their own handlers
    return _core.run_command_line(["foldgrad", *sys.argv[1:]], [sys.executable, "-m", "foldgrad"])


if __name__ == "__main__":
    sys.exit(main())
