"""Reads which libraries an ELF file needs, and the folders in which the loader searches them. Reads only 64-bit
little-endian files, since ucudnn is built for no other kind."""

import mmap
import pathlib
import struct
import typing

PT_LOAD, PT_DYNAMIC, SHT_SYMTAB = 1, 2, 2
DT_NULL, DT_NEEDED, DT_STRTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 0, 1, 5, 14, 15, 29
# These libraries are on every machine with a C++ run-time, or come with CUDA, cuDNN or the driver.
EXPECTED = {*(f"lib{name}" for name in ("c.so.6", "m.so.6", "pthread.so.0", "dl.so.2", "rt.so.1", "resolv.so.2", "stdc++.so.6",
                                        "gcc_s.so.1", "cuda.so.1", "cudart.so.13", "cudnn.so.9")), "ld-linux-x86-64.so.2"}


class Elf(typing.NamedTuple):
    needed: list
    run_paths: list  # the folders of DT_RUNPATH and DT_RPATH
    soname: str
    stripped: bool


def read(path):
    """Returns the Elf of a file, or None for a file that is no ELF file. Raises ValueError if an ELF file is damaged."""
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return parsed(data)
            except (struct.error, StopIteration):
                raise ValueError(f"{path}: a damaged ELF file") from None


def parsed(data):
    if data[4:6] != b"\x02\x01":
        raise ValueError("an ELF file of another kind of machine")
    segments, sections = struct.unpack_from("<QQ", data, 32)
    segment_bytes, segment_count, section_bytes, section_count = struct.unpack_from("<HHHH", data, 54)
    # A header is (type, flags, offset, address, physical address, bytes in the file).
    headers = [struct.unpack_from("<IIQQQQ", data, segments + i * segment_bytes) for i in range(segment_count)]
    types = [struct.unpack_from("<II", data, sections + i * section_bytes)[1] for i in range(section_count)]
    entries = [entry for kind, _, offset, _, _, size in headers if kind == PT_DYNAMIC for entry in dynamic(data, offset, size)]
    text = next((value for tag, value in entries if tag == DT_STRTAB), None)
    if text is not None:  # turns the address of the string table into its offset in the file
        text += next(offset - address for kind, _, offset, address, _, size in headers
                     if kind == PT_LOAD and address <= text < address + size)
    strings = {wanted: [string(data, text + value) for tag, value in entries if tag == wanted]
               for wanted in (DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH)}
    folders = [folder for paths in strings[DT_RUNPATH] + strings[DT_RPATH] for folder in paths.split(":")]
    return Elf(strings[DT_NEEDED], folders, next(iter(strings[DT_SONAME]), ""), SHT_SYMTAB not in types)


def dynamic(data, offset, size):
    for at in range(offset, offset + size, 16):
        tag, value = struct.unpack_from("<QQ", data, at)
        if tag == DT_NULL:
            return
        yield tag, value


def string(data, offset):
    end = data.find(b"\0", offset)
    if end < 0:
        raise struct.error
    return data[offset:end].decode()


def faults(folder, built_in):
    """Returns a line for each fault of the ELF files under `folder`, which are to run on another machine. Faults are a library
    that may be missing there, a run path outside of $ORIGIN, symbols that are not stripped, and the path `built_in`, the
    folder in which the files were built."""
    files = {path: read(path) for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}
    files = {path.relative_to(folder).as_posix(): (path, each) for path, each in files.items() if each}
    here = {pathlib.PurePath(name).name for name in files} | {each.soname for _, each in files.values()}
    found = []
    for name, (path, each) in files.items():
        found += [f"{name} needs {library}" for library in each.needed if library not in EXPECTED | here]
        found += [f"{name} looks in {place or 'the current folder'}" for place in each.run_paths
                  if place != "$ORIGIN" and not place.startswith("$ORIGIN/")]
        if not each.stripped:
            found.append(f"{name} is not stripped")
        if f"{built_in}/".encode() in path.read_bytes():
            found.append(f"{name} holds the path {built_in}")
    return found
