"""Opens pages in headless Chromium: returns what the DOM holds after the page's script ran, and what it looks like."""

import os
import shutil
import struct
import subprocess
import tempfile
import zlib

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


def run(page, *words, script="", width=1100, height=900, dark=False):
    """Opens a copy of `page`, with `script` run after its own. Returns Chromium's output."""
    with tempfile.TemporaryDirectory(prefix="ucudnn-chromium-") as profile:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        copy = f"{profile}/page.html"
        with open(copy, "w", encoding="utf-8") as file:
            file.write(text.replace("</body>", f"<script>{script}</script></body>") if script else text)
        return subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", f"--user-data-dir={profile}/profile", f"--window-size={width},{height}",
             f"--blink-settings=preferredColorScheme={0 if dark else 1}", *words, f"file://{copy}"],
            check=True, capture_output=True, text=True, timeout=240, env=os.environ | {"HOME": profile}).stdout


def dom(page, script=""):
    return run(page, "--dump-dom", script=script)


def screenshot(page, image, **options):
    """Returns rows of (red, green, blue) bytes; `image` is the file that keeps them."""
    run(page, f"--screenshot={image}", **options)
    return pixels(image)


def pixels(image):
    """Returns the rows of a PNG of 8 bits a colour, not interlaced."""
    with open(image, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", image
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, interlaced) == (8, 0) and colour in (2, 6), (depth, colour, interlaced)
            step = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    raw, rows, before = zlib.decompress(packed), [], bytes(width * step)
    for y in range(height):
        start = y * (width * step + 1)
        line = unfilter(raw[start], bytearray(raw[start + 1:start + 1 + width * step]), before, step)
        rows.append([tuple(line[i:i + 3]) for i in range(0, len(line), step)])
        before = line
    return rows


def unfilter(kind, line, above, step):
    for i in range(len(line)):
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            line[i] = (line[i] + left) & 255
        elif kind == 2:
            line[i] = (line[i] + above[i]) & 255
        elif kind == 3:
            line[i] = (line[i] + (left + above[i]) // 2) & 255
        elif kind == 4:
            estimate = left + above[i] - corner
            nearest = min((left, above[i], corner), key=lambda value: abs(estimate - value))
            line[i] = (line[i] + nearest) & 255
    return line
