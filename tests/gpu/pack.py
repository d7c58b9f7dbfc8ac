"""Implements tools/gpu-check --pack FOLDER. A pack has what a sitting needs on a machine with a GPU where nothing can be built
or downloaded. A file has the same path in the pack as in the repository. CUDA, cuDNN and NCCL are not packed, since that
machine has them; with --host, the CPU stand-in's libraries are packed. elf.py checks which libraries packed files need."""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import elf
import machine

LIMIT_MIB = 45
COMMAND_CHARACTERS = 2000
MANIFEST = "files"  # lists the files of a pack; other files in its folder are no part of it
SOURCES = ("tools/gpu-check", "tests/gpu/*.py", "tests/gpu/*.csv", "tests/gpu/results/*", "tests/bench/*.py",
           "tests/bench/record-table", "tests/unit/planner/digits/*", "python/ucudnn/**/*.py")
HOST = "build/release/lib/ucudnn/host"
# Wheels for the decoder of diffusers' AutoencoderKL. Their other requirements (zipp, huggingface_hub, safetensors, regex, …)
# must be installed on the machine.
WHEELS = {"diffusers-0.42.1-py3-none-any.whl": "9154faa704ce00e0b77f568e0d64786064368528aab5fc14eeea92f87d788014",
          "importlib_metadata-8.7.0-py3-none-any.whl": "e5dd1551894c77868a30651cef00984d50e1002d06942a7101d34870c5f02afd"}


def pack(folder, host):
    """Makes the pack, which replaces an earlier one in the folder, and prints the commands to run. Returns an exit code."""
    folder = pathlib.Path(folder).absolute()
    try:
        may_write(folder)
        to_run = commands(folder, host)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
            made = pathlib.Path(beside, "pack")
            without_wheels = gather(made, host)
            found = elf.faults(made / "build", machine.BUILD)
            if found:
                raise machine.Failed(f"the pack would not start elsewhere: {'; '.join(found)}")
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)
    except (machine.Failed, OSError, ValueError) as error:
        print(f"tools/gpu-check: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    files = [path for path in folder.rglob("*") if path.is_file()]
    print(f"{folder}: {sum(path.stat().st_size for path in files) / 2**20:.1f} MiB in {len(files)} files, "
          f"ucudnn {(folder / 'commit').read_text().strip()}")
    if without_wheels:
        print(f"without diffusers, so what decodes pictures with a VAE is skipped: {without_wheels}")
    print("on the machine with the GPU, from the folder of the repository, where OUT is a folder for results:")
    for command in to_run:
        print(f"  {command}")
    return 0


def may_write(folder):
    """Refuses a folder that git would track, and one that has files which are not part of a pack."""
    if folder.resolve().is_relative_to(machine.ROOT):
        ignored = ["git", "-C", machine.ROOT, "check-ignore", "-q", folder.resolve() / MANIFEST]
        if folder.resolve() == machine.ROOT or subprocess.run(ignored, stderr=subprocess.DEVNULL).returncode != 0:
            raise machine.Failed(f"--pack {folder}: neither ignored by git nor outside the checkout")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise machine.Failed(f"--pack {folder}: not a folder")
    manifest = folder / MANIFEST
    packed = set(manifest.read_text().splitlines()) if manifest.exists() else set()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_dir() and name not in packed | {MANIFEST} and "__pycache__" not in path.parts:
            raise machine.Failed(f"--pack {folder}: {name} is there, and is no part of a pack")


def gather(folder, host):
    """Copies all files of the pack to `folder`. Returns the reason why there are no wheels, or None."""
    for pattern in SOURCES:
        for path in machine.ROOT.glob(pattern):
            if path.is_file():
                put(path, folder / path.relative_to(machine.ROOT))
    refuse_an_old_build()
    for name, path in built("packed.txt").items():
        put_stripped(path, folder / "build/release" / name)
    add_facts(folder / "build/release/tests/gpu/facts")
    without_wheels = add_wheels(folder / "wheels")
    (folder / "commit").write_text(f"{commit()}\n")
    refuse_what_is_too_much(folder)
    if host:
        for name, path in built("packed-host.txt").items():
            put_stripped(path, folder / "build/release" / name)
        put_foreign_libraries(folder / HOST)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    (folder / MANIFEST).write_text("".join(f"{name}\n" for name in names))
    return without_wheels


def add_facts(folder):
    """Adds lists of the plans that cuDNN makes here without a GPU. The stage `plans` compares these lists with a GPU's
    plans."""
    if (machine.FOLDER / "facts.py").exists():
        import facts
        facts.make_lists(folder)


def put(path, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, to)


def put_stripped(path, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    machine.run(["strip", "-o", to, path], machine.python_environment(), 60)


def built(names):
    """Returns the files in a list that CMake wrote, by their paths in the build folder."""
    path = machine.BUILD / "tests/gpu" / names
    if not path.exists():
        raise machine.Failed(f"no {path}: configure the build first")
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    files = {name: pathlib.Path(*elsewhere) if elsewhere else machine.BUILD / name for name, *elsewhere in lines}
    missing = [name for name, path in files.items() if not path.exists()]
    if missing:
        raise machine.Failed(f"not built in {machine.BUILD}: {', '.join(missing)}")
    return files


def refuse_an_old_build():
    """Refuses a build that is older than the sources, because the pack states a commit."""
    if shutil.which("ninja") and (machine.BUILD / "build.ninja").exists():
        words = ["ninja", "-C", machine.BUILD, "-n", "gpu_check"]
        code, output, _ = machine.call(words, machine.python_environment(), 120)
        if code != 0 or "no work to do" not in output:
            raise machine.Failed(f"the build is not of these sources: ninja -C {machine.BUILD} gpu_check")


def put_foreign_libraries(folder):
    """Adds the libraries that the stand-ins need and that not every machine has: oneDNN and its requirements."""
    unread = list(folder.iterdir())
    while unread:
        path = unread.pop()
        for name in elf.read(path).needed:
            if name not in elf.EXPECTED and not (folder / name).exists():
                told = machine.run(["ldd", path], machine.python_environment(), 60)
                found = re.search(rf"^\s*{re.escape(name)} => (/\S+)", told, re.MULTILINE)
                if not found:
                    raise machine.Failed(f"{path.name} needs {name}, which is not found")
                put_stripped(found[1], folder / name)
                unread.append(folder / name)


def add_wheels(folder):
    """Adds the wheels, which are downloaded only once. Returns the reason why there are none, or None."""
    kept = machine.ROOT / "build/wheels"
    reason = None if all(is_whole(kept / name) for name in WHEELS) else fetch_wheels(kept)
    if reason is None:
        for name in WHEELS:
            put(kept / name, folder / name)
    return reason


def is_whole(wheel):
    return wheel.exists() and hashlib.sha256(wheel.read_bytes()).hexdigest() == WHEELS[wheel.name]


def fetch_wheels(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        for name, digest in WHEELS.items():
            requirements.write("{}=={} --hash=sha256:{}\n".format(*name.split("-")[:2], digest))
        requirements.flush()
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1",
                 "--timeout", "15", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", folder,
                 "--requirement", requirements.name]
        try:
            code, _, errors = machine.call(words, machine.python_environment(), 120)
        except machine.TimedOut as error:
            return str(error)
    return None if code == 0 else (errors.strip().splitlines() or [f"pip: exit code {code}"])[-1]


def commit():
    """Returns the commit and its date in one line."""
    questions = [["describe", "--always", "--dirty"], ["show", "--no-patch", "--format=%cs", "HEAD"]]
    return " ".join(machine.run(["git", "-C", machine.ROOT, *words], machine.python_environment(), 60).strip()
                    for words in questions)


def refuse_what_is_too_much(folder):
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    if sum(sizes.values()) > LIMIT_MIB << 20:
        largest = sorted(sizes, key=sizes.get)[-5:]
        raise machine.Failed(f"{sum(sizes.values()) / 2**20:.1f} MiB to pack, {LIMIT_MIB} at most: " + ", ".join(
            f"{name} {sizes[name] / 2**20:.1f}" for name in reversed(largest)))


def commands(folder, host):
    """Returns the commands to run on the machine. If the folder is inside the repository, the commands name it by its path in
    the repository, otherwise by its absolute path."""
    place = folder.relative_to(machine.ROOT) if folder.is_relative_to(machine.ROOT) else folder
    program = f"python3 {place}/tools/gpu-check{' --host' if host else ''}"
    made = [f"{program} --sitting A --output $OUT", f"{program} --sitting B --resume --output $OUT"]
    longest = max(map(len, made))
    if longest > COMMAND_CHARACTERS:
        raise machine.Failed(f"a command of {longest} characters, {COMMAND_CHARACTERS} at most: choose another folder")
    return made
