"""Runs programs on a terminal."""

import os
import pty
import select
import subprocess


def written(words, environment, stdout=None, cwd=None):
    """Returns a program's exit code, and what it wrote to its terminal: stderr, and stdout unless that goes elsewhere."""
    controller, terminal = pty.openpty()
    try:
        program = subprocess.Popen(words, stdout=terminal if stdout is None else stdout, stderr=terminal, env=environment, cwd=cwd)
        os.close(terminal)
        text = b""
        try:
            while select.select([controller], [], [], 120)[0]:
                text += os.read(controller, 65536)
        except OSError:
            pass  # everything is read, and nobody has the terminal open
        return program.wait(120), text.decode()
    finally:
        os.close(controller)
