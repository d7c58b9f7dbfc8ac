"""Records the GPU's clocks, power, temperature, load, memory and reasons for slowing down throughout a sitting, as nvidia-smi
reports them. Changes no setting."""

import csv
import io
import os
import pty
import shutil
import subprocess
import threading
import time

import machine

FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "utilization.gpu", "memory.used")
# The names of the field that says why clocks are reduced: its name since driver 535, and its older name.
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
COLUMNS = ("sitting", "seconds", "sm_mhz", "memory_mhz", "power_w", "temperature_c", "busy_percent", "memory_mib", "slowed_down_by")
WRITE_SECONDS = 2


def query(*fields):
    """Returns the first GPU's values of `fields`, or None."""
    words = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "-i", "0"]
    if machine.HOST or not shutil.which("nvidia-smi"):
        return None
    try:
        code, output, _ = machine.call(words, dict(os.environ), 15)
    except machine.TimedOut:
        return None
    return [value.strip() for value in output.split(",")] if code == 0 else None


def driver():
    """Returns the driver's version, such as "580.95.05", or None."""
    values = query("driver_version")
    return values[0] if values else None


class Log:
    """Between start() and end(), records a row from nvidia-smi every half second, if the machine has nvidia-smi. Every
    WRITE_SECONDS and in end(), adds the new rows to a CSV file, which may have rows of earlier sittings. The file is
    complete at any moment."""

    def __init__(self, path, sitting):
        self.path, self.sitting, self.process, self.begin, self.written = path, sitting, None, time.monotonic(), 0.0
        self.rows = list(csv.reader(path.open(newline="")))[1:] if path.exists() else []
        self.before = len(self.rows)

    def start(self):
        reason = next((reason for reason in REASONS if query(reason)), None)
        if not query(*FIELDS):
            return
        # nvidia-smi flushes each line if it writes to a terminal, but buffers its output if it writes to a pipe.
        try:
            reader, writer = pty.openpty()
        except OSError:  # the machine has no pseudo-terminals
            reader, writer = os.pipe()
        words = ["nvidia-smi", f"--query-gpu={','.join((*FIELDS, reason) if reason else FIELDS)}",
                 "--format=csv,noheader,nounits", "-i", "0", "-lms", "500"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.DEVNULL,
                                        preexec_fn=machine.die_with_parent)
        os.close(writer)
        threading.Thread(target=self.read, args=(reader,), daemon=True).start()

    def read(self, reader):
        with os.fdopen(reader, errors="replace") as lines:
            try:
                for line in lines:
                    self.add(line)
            except OSError:  # nvidia-smi has ended, which closes the terminal
                pass

    def add(self, line):
        values = [value.strip() for value in line.split(",")]
        if len(values) < len(FIELDS):
            return
        self.rows.append([self.sitting, f"{time.monotonic() - self.begin:.1f}", *values])
        if time.monotonic() - self.written > WRITE_SECONDS:
            self.write()

    def write(self):
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(self.rows)
        machine.write_whole(self.path, text.getvalue().encode())
        self.written = time.monotonic()

    def now(self):
        """Returns the newest row by column, or None."""
        return dict(zip(COLUMNS[1:], self.rows[-1][1:])) if len(self.rows) > self.before else None

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        if len(self.rows) > self.before:
            self.write()
