"""Fetches single files from wheels, by package name. pip finds the wheel, and only the necessary bytes are fetched,
because the wheels of CUDA libraries have gigabytes. Uses pip's lazy wheels, by which pip itself fetches metadata, so the
user's pip configuration applies. All functions raise SystemExit with the reason if they fail, for example because the index
serves only complete files.
"""
import contextlib
import hashlib
import pathlib
import zipfile

CHUNK = 32 << 20


def registry():
    """Returns pip's module of lazy wheels, and its session and finder for wheels of this platform."""
    try:
        from pip._internal.commands import create_command
        from pip._internal.network import lazy_wheel
    except ImportError as error:
        raise SystemExit(f"this pip has no lazy wheels ({error}); pip 23 to 25 have") from error
    command = create_command("download")
    options, _ = command.parse_args(["--no-deps", "--only-binary", ":all:", "wheel"])
    with command.main_context():
        session = command._build_session(options)
        return lazy_wheel, session, command._build_package_finder(options, session)


class Registry:
    def __init__(self):
        self.lazy_wheel, self.session, self.finder = registry()

    def releases(self, package):
        """Returns (version, wheel's file name, sha256, link) of each published release, oldest first."""
        wheels = {}
        for candidate in self.finder.find_all_candidates(package):
            if not candidate.version.is_prerelease and candidate.link.is_wheel:
                wheels[candidate.version] = candidate.link
        return [(str(version), wheels[version].filename, wheels[version].hash, wheels[version])
                for version in sorted(wheels)]

    def newest(self, package):
        found = self.releases(package)
        if not found:
            raise SystemExit(f"{package}: no wheel for this Python and platform")
        return found[-1]

    @contextlib.contextmanager
    def opened(self, link):
        """Yields the wheel at `link`, whose bytes are fetched when they are read."""
        try:
            with self.lazy_wheel.LazyZipOverHTTP(link.url_without_fragment, self.session) as lazy:
                yield Wheel(lazy)
        except self.lazy_wheel.HTTPRangeRequestUnsupported as error:
            raise SystemExit(f"{link.filename}: the index serves whole files only") from error


class Wheel:
    def __init__(self, lazy):
        self.lazy = lazy
        self.zip = zipfile.ZipFile(lazy)

    def names(self):
        return self.zip.namelist()

    def extract(self, name, path):
        """Writes the member `name` to `path` and returns its sha256. zipfile checks the CRC. First fetches the member's
        bytes in large pieces, because zipfile alone would ask for a few KiB at a time."""
        info = self.zip.getinfo(name)
        end = info.header_offset + info.compress_size + (1 << 16)  # 64 KiB more, for the member's header
        for begin in range(info.header_offset, end, CHUNK):
            self.lazy.seek(begin)
            self.lazy.read(min(CHUNK, end - begin))
        digest = hashlib.sha256()
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with self.zip.open(info) as member, open(path, "wb") as file:
            while piece := member.read(1 << 20):
                digest.update(piece)
                file.write(piece)
        return digest.hexdigest()
