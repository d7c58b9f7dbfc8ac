"""Base classes for tests of the command. CommandTest makes an installation with the real command and dummy libraries. So
tests of the variables that the command sets, and of what it refuses, do not depend on real libraries."""

import csv
import io
import json
import os
import pty
import select
import shutil
import subprocess
import tempfile
import unittest

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
CC = os.environ["UCUDNN_TEST_CC"]
ROOT = os.path.realpath(f"{os.path.dirname(__file__)}/../../..")
MIB = 1 << 20
STAND_INS = ("libcuda.so.1", "libcudart.so.13", "libcudnn.so.9", "libnccl.so.2", "libcurand.so.10")

PRINT_ENVIRONMENT = r"""
#include <stdio.h>
extern char** environ;
int main(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) printf("argument=%s\n", argv[i]);
  for (char** entry = environ; *entry; ++entry) printf("%s\n", *entry);
  return argc == 2 ? 7 : 0;
}
"""


def clean_environment(**variables):
    """Returns os.environ without variables of ucudnn, its stand-ins and the loader, and with `variables` added."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("UCUDNN_", "HOSTGPU_", "LD_"))} | variables


# A network with an operator that ucudnn does not know: Unheard.
UNHEARD_NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "odd" type: "Unheard" bottom: "data" top: "odd" }
layer { name: "conv" type: "Convolution" bottom: "odd" top: "conv" convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
"""


# A network for training, whose file does not say how large its images are.
TRAINING_NET = """
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
        data_param { source: "train_lmdb" batch_size: 64 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 20 kernel_size: 5 } }
"""


def ordinary_user():
    """Returns arguments of subprocess.run that start a process to which file permissions apply. If the tests run as root,
    the process runs as user 65534, otherwise as the current user."""
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


def measurements(shape, rows, op="forward", platform="91900,13000,Toy GPU"):
    """Returns a CSV text with measurements of one kernel. `rows` has (engine, micro-batch, ms, workspace bytes)."""
    lines = ["c,h,w,k,r,s,pad_h,pad_w,op,engine,micro_batch,time_ms,workspace_bytes,deterministic,align,cudnn,driver,device"]
    lines += [f"{shape},{op},{engine},{size},{ms},{bytes_},1,16,{platform}" for engine, size, ms, bytes_ in rows]
    return "\n".join(lines) + "\n"


class FolderTest(unittest.TestCase):
    """Runs the command in a temporary folder that each class makes. The command is COMMAND, the build's, which is
    installed with the stand-ins."""
    command = COMMAND

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.realpath(tempfile.mkdtemp(prefix="ucudnn-command-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def setUp(self):
        self.store = f"{self.folder}/{self.id()}.db"

    @classmethod
    def write(cls, name, content, mode=None):
        """Writes or replaces a file of the folder. `content` is bytes or text; anything else is written as JSON. Returns the
        path."""
        path = os.path.join(cls.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            os.remove(path)
        if not isinstance(content, (bytes, bytearray, str)):
            content = json.dumps(content)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            os.chmod(path, mode)
        return path

    @classmethod
    def write_rows(cls, name, rows):
        """Writes `rows`, dictionaries with the same keys, to a CSV file. Returns its path."""
        text = io.StringIO()
        writer = csv.DictWriter(text, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return cls.write(name, text.getvalue())

    @classmethod
    def write_net(cls, nodes, name="net.json"):
        cls.write(name, {"format": "ucudnn-net", "version": 1, "name": "net", "nodes": nodes})
        return name

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def load(self, name):
        return json.loads(self.read(name))

    def own(self):
        """Returns variables that give a test its own locks and its own default store. So it does not wait for other
        processes that measure, and does not read what they measured."""
        return {"XDG_RUNTIME_DIR": self.folder, "XDG_CACHE_HOME": self.folder}

    def run_command(self, *words, process=None, **variables):
        """Runs the command and returns the completed process. `process`: more arguments of subprocess.run."""
        environment = clean_environment(**self.own()) | variables
        return subprocess.run([self.command, *words], env=environment, cwd=self.folder, capture_output=True,
                              **({"text": True, "timeout": 240} | (process or {})))  # long enough for sanitizers on a busy machine

    @classmethod
    def build(cls, source, path, *options):
        path = os.path.join(cls.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run([CC, "-x", "c", "-fPIC", "-", "-x", "none", "-o", path, *options], input=source.encode(), check=True)
        return path

    @classmethod
    def build_library(cls, source, path, *options):
        return cls.build(source, path, "-shared", f"-Wl,-soname,{os.path.basename(path)}", *options)

    def ended(self, code, *words, **variables):
        """Runs a command that must end with exit code `code`. Returns the completed process."""
        result = self.run_command(*words, **variables)
        self.assertEqual(code, result.returncode, result.stdout + result.stderr)
        return result

    def on_terminal(self, *words, stdout=None, **variables):
        """Runs a command that must succeed. stderr is a terminal, and so is stdout unless `stdout` is given. Returns
        what the command writes to the terminal."""
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        environment = clean_environment(**self.own(), TERM="xterm") | variables
        program = subprocess.Popen([self.command, *words], stdout=stdout or terminal, stderr=terminal, env=environment,
                                   cwd=self.folder)
        os.close(terminal)
        text = b""
        try:
            while select.select([controller], [], [], 120)[0]:
                text += os.read(controller, 65536)
        except OSError:
            pass  # end of the output: the command has closed the terminal
        self.assertEqual(0, program.wait(120), text)
        return text.decode()

    def output(self, *words, **variables):
        """Runs a command that must succeed and write nothing to stderr. Returns its stdout."""
        result = self.run_command(*words, **variables)
        self.assertEqual((0, ""), (result.returncode, result.stderr), words)
        return result.stdout

    def printed_json(self, *words, **variables):
        return json.loads(self.output(*words, **variables))

    def assert_refused(self, words, *expected, code=2, **variables):
        """Runs a command that must end with exit code `code`, write nothing to stdout, and write one line with all of
        `expected` to stderr."""
        result = self.ended(code, *words, **variables)
        self.assertEqual("", result.stdout)
        self.assertEqual(1, result.stderr.count("\n"), result.stderr)
        self.assert_has(result.stderr, *expected)

    def assert_has(self, text, *parts):
        for part in parts:
            self.assertIn(part, text)

    def import_rows(self, text, store=None):
        self.output("cache", "import", self.write("rows.csv", text), "--db", store or self.store)

    def exported(self, store=None):
        """Exports a store to out/of/rows.csv and returns the rows."""
        self.ended(0, "cache", "export", "out/of/rows.csv", "--db", store or self.store)
        return list(csv.DictReader(io.StringIO(self.read("out/of/rows.csv"))))

    def rows_in_store(self, store=None):
        return self.printed_json("cache", "show", "--json", "--db", store or self.store)["measurements"]


class CommandTest(FolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.makedirs(f"{cls.folder}/installed/bin")
        cls.command = f"{cls.folder}/installed/bin/ucudnn"
        shutil.copy(COMMAND, cls.command)
        libraries = f"{cls.folder}/installed/lib/ucudnn"
        cls.drop_in = f"{libraries}/libcudnn.so.9"
        cls.host = f"{libraries}/host"
        ours = cls.build_library("int ucudnn_test_library;", "installed/lib/libucudnn.so.1")
        cls.build_library("int ucudnn_test_drop_in;", cls.drop_in, "-Wl,--no-as-needed", ours, "-Wl,-rpath,$ORIGIN/..")
        cls.dlsym_hook = cls.build("int ucudnn_test_hook;", f"{libraries}/libucudnn_dlsym.so", "-shared")
        for name in STAND_INS:
            cls.build_library("int stand_in;", f"{cls.host}/{name}")
        cls.program = cls.build(PRINT_ENVIRONMENT, "program")
        # Without a CUDA driver `run` would warn, so commands find this dummy driver through LD_LIBRARY_PATH.
        cls.driver = f"{cls.folder}/driver"
        os.mkdir(cls.driver)
        shutil.copy(f"{cls.host}/libcuda.so.1", cls.driver)

    def environment_of(self, *words, **variables):
        """Runs a command that starts `program`. Returns the environment variables that `program` prints, by name."""
        paths = [path for path in (variables.pop("LD_LIBRARY_PATH", ""), self.driver) if path]
        output = self.output(*words, LD_LIBRARY_PATH=":".join(paths), **variables)
        return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
