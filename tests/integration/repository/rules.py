"""Checks rules of the repository that a compiler does not check: which folder may include which, which files may use
the loader and the environment, which types mutexes have (clang's analysis must be able to check them), how long
functions and their parameter lists may be, and that no paths of a particular machine are committed. Only
repository_files reads files."""

import posixpath
import re
import subprocess

import functions

# Rooms are folders; each line is a floor. A room may include itself and the rooms in earlier lines, but no other room
# in its own line.
FLOORS = [
    ["src/base"],
    ["src/options", "src/convolution"],
    ["src/planning", "src/cuda"],
    ["src/cudnn", "src/transport"],
    ["src/execution"],
    ["src/tuning"],
    ["src/spatial"],
    ["src/interposer"],
    ["shim", "tools"],
]
# Exceptions to FLOORS: a room may not include the rooms listed for it, although their floor would allow this. transport
# knows nothing of convolutions.
UNKNOWN_TO = {"src/transport": ["src/convolution", "src/planning"]}
PURE = ["src/base", "src/convolution", "src/planning"]
ON_DEVICES = ["src/cuda", "src/cudnn", "src/transport", "src/execution", "src/spatial"]

# Folders that are on no floor. Each may include itself and the listed folders.
ANNEXES = {
    "include": [],
    "db": PURE,
    "planner": PURE,
    "planner/runtime": PURE + ON_DEVICES + ["planner"],
    "planner/multigrid": PURE + ON_DEVICES + ["planner"],
    "shim/layer_parallel": PURE + ["include", "planner", "planner/multigrid"],
}
# These rooms of FLOORS may also include these annexes.
JOINED_IN = {"shim": ["include", "db", "planner"], "tools": ["include", "db", "planner", "planner/multigrid"]}

WITHOUT_CUDA = ["src/base", "src/options", "src/convolution", "src/planning", "db", "planner", "shim/layer_parallel",
                "include/ucudnn/layer_parallel.h"]
WITH_CUDA = ["planner/runtime", "planner/multigrid"]
CUDA_HEADER = re.compile(r"^(cuda|cudnn|cublas|nccl|nvrtc|driver_types|vector_types|library_types)[a-z0-9_]*\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
LOADER = re.compile(r"\b(dlopen|dlmopen|dlsym|dlvsym)\s*\(")
LOCK = re.compile(r"\bstd::(\w*mutex|condition_variable\w*|lock_guard|unique_lock|scoped_lock)\b")
ENVIRONMENT = re.compile(r"\b(secure_getenv|getenv|environ)\b")
# The pattern is written in pieces so that this file passes its own test.
MACHINE_PATH = re.compile(
    r"(?<![\w.])(/wor" + "k/[a-z.]|/roo" + "t/|/hom" + "e/[a-z])|pyen" + "v|/share" + "d/(notes|papers|oracles|[A-Z])"
)

SOURCES = (".h", ".hpp", ".cpp", ".cc", ".c", ".S", ".inc")

# Functions in these folders keep these limits. A longer function gives its reason directly above: "// Long because
# ...". Functions with C linkage may have more parameters, because other libraries or languages define their signatures.
WITH_SHORT_FUNCTIONS = ["src", "db", "planner", "tools/command"]
MOST_LINES = 80
MOST_PARAMETERS = 6
FUNCTION_SOURCES = (".h", ".hpp", ".cpp", ".cc", ".c")
REASON = re.compile(r"\bLong because \w")


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def room_of(path):
    """Returns the innermost room that contains the file, or None if no room does (tests, build files)."""
    rooms = [room for floor in FLOORS for room in floor] + list(ANNEXES)
    return max((room for room in rooms if within(path, room)), key=len, default=None)


def allowed_rooms(room):
    if room in ANNEXES:
        return {room, *ANNEXES[room]}
    below = []
    for floor in FLOORS:
        if room in floor:
            return {room, *below, *JOINED_IN.get(room, [])} - {*UNKNOWN_TO.get(room, [])}
        below += floor
    raise KeyError(room)


def target_of(path, name, files):
    """Returns the file of the repository that `#include "name"` in `path` means, or None if it is not in the
    repository."""
    folder = path.rsplit("/", 1)[0]
    return next((c for c in (posixpath.normpath(f"{folder}/{name}"), name, f"src/{name}", f"shim/{name}", f"include/{name}")
                 if c in files), None)


def include_violations(path, text, files):
    room = room_of(path)
    if room is None or not path.endswith(SOURCES):
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match[2]
        target = target_of(path, name, files)
        target_room = target and room_of(target)
        if target and target_room is None:
            yield f"{path}:{number}: includes {target}, which is not part of what is shipped"
        elif target and target_room not in allowed_rooms(room):
            yield f"{path}:{number}: {room} may not include {target}"
        elif not target and CUDA_HEADER.match(name.rsplit("/", 1)[-1]) and forbids_cuda(path):
            yield f"{path}:{number}: {room} builds without CUDA but includes {name}"


def forbids_cuda(path):
    return any(within(path, f) for f in WITHOUT_CUDA) and not any(within(path, f) for f in WITH_CUDA)


def call_violations(path, text):
    """Yields uses of dlopen and similar functions, of the environment, and of standard mutexes, in files that may not
    use them."""
    if room_of(path) is None or not path.endswith(SOURCES):
        return
    keep_lines = lambda match: "\n" * match[0].count("\n")
    code = COMMENT.sub(keep_lines, text).splitlines()
    for number, line in enumerate(code, 1):
        if not (within(path, "shim") or path.startswith("src/base/shared_library.")) and LOADER.search(line):
            yield f"{path}:{number}: only src/base/shared_library and shim/ open libraries"
        if not (path.startswith("src/options/options.") or within(path, "shim/host") or within(path, "tools")) \
                and ENVIRONMENT.search(line):
            yield f"{path}:{number}: only src/options/options, shim/host and tools/ read the environment"
        if not (path == "src/base/mutex.h" or within(path, "shim/host")) and LOCK.search(line):
            yield f"{path}:{number}: only src/base/mutex.h and shim/host use mutexes that clang does not check"


def comment_above(lines, first):
    """Returns the comment that ends directly above line `first`."""
    above = first - 1
    while above > 0 and lines[above - 1].lstrip().startswith("//"):
        above -= 1
    return "\n".join(lines[above:first - 1])


def function_violations(path, text):
    """Yields functions that are too long without a reason, or that have too many parameters."""
    if not path.endswith(FUNCTION_SOURCES) or not any(within(path, folder) for folder in WITH_SHORT_FUNCTIONS):
        return
    try:
        found = functions.functions(text)
    except functions.Unreadable as fault:
        yield f"{path}:{fault.line}: functions cannot be told apart: {fault}"
        return
    lines = text.splitlines()
    for function in found:
        length = function.last - function.first + 1
        if length > MOST_LINES and not REASON.search(comment_above(lines, function.first)):
            yield f"{path}:{function.first}: {function.name} has {length} lines; more than {MOST_LINES} want a " \
                  f"comment directly above with \"Long because\""
        if function.parameters > MOST_PARAMETERS and not function.is_c:
            yield f"{path}:{function.first}: {function.name} takes {function.parameters} parameters, more than " \
                  f"{MOST_PARAMETERS}"


def machine_path_violations(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        match = MACHINE_PATH.search(line)
        if match:
            yield f"{path}:{number}: names a path of one machine: {line.strip()[:100]}"


def violations(files):
    """Yields all violations. `files`: {path relative to the repository's root: text}."""
    for path, text in sorted(files.items()):
        yield from include_violations(path, text, files)
        yield from call_violations(path, text)
        yield from function_violations(path, text)
        yield from machine_path_violations(path, text)


def repository_files(root):
    """Returns {path: text} of every file that is, or could be, committed."""
    listing = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             check=True, capture_output=True, text=True).stdout
    files = {}
    for path in filter(None, listing.split("\0")):
        try:
            with open(f"{root}/{path}", encoding="utf-8") as file:
                files[path] = file.read()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # the file is binary, or is deleted but still in the index
    return files
