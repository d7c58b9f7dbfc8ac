"""`ucudnn run` looks at a command and preloads what it takes to reach its programs: the drop-in, and the dlsym hook only if
some part of them opens cuDNN by its path."""

import json
import os
import sys
import unittest

from command import CommandTest


class Reach(CommandTest):
    def preloads(self, *words, **variables):
        return self.environment_of("run", *words, **variables)["LD_PRELOAD"]

    def both(self):
        return f"{self.drop_in}:{self.dlsym_hook}"

    def reason(self, *words, **variables):
        """Returns what `ucudnn doctor` says about how the program is reached."""
        report = json.loads(self.run_command("doctor", "--json", "--", *words, **variables).stdout)
        return next(fact["text"] for fact in report["facts"] if fact["name"] == "reached by")

    def script(self, name, text, mode=0o755):
        return self.write(name, text, mode)

    def python(self, name, *modules):
        """Makes a Python environment with these packages, which prints its variables whatever it is asked."""
        prefix = f"{self.folder}/{name}"
        for module in modules:
            os.makedirs(f"{prefix}/lib/python3.11/site-packages/{os.path.dirname(module)}")
            open(f"{prefix}/lib/python3.11/site-packages/{module}", "w").close()
        os.makedirs(f"{prefix}/bin", exist_ok=True)
        os.link(self.program, f"{prefix}/bin/python3.11")
        for link in "python", "python3":
            os.symlink("python3.11", f"{prefix}/bin/{link}")
        return f"{prefix}/bin/python3"

    COMPILED = "cudnn/_compiled_module.cpython-311-x86_64-linux-gnu.so"

    def test_program_is_reached_by_the_drop_in_alone(self):
        self.assertEqual(self.drop_in, self.preloads("--", self.program))

    def test_program_with_a_path_to_cudnn_gets_the_hook(self):
        text = '\n__attribute__((used)) static const char path[] = "/opt/cuda/lib64/libcudnn.so.9";'
        source = "#include <stdio.h>\nextern char** environ;" + text + \
            "int main(void) { for (char** e = environ; *e; ++e) puts(*e); return 0; }"
        program = self.build(source, f"{self.folder}/with_path")
        self.assertEqual(self.both(), self.preloads("--", program))
        self.assertEqual(self.drop_in, self.preloads("--dlsym", "off", "--", program))

    def test_program_whose_library_has_a_path_to_cudnn_gets_the_hook(self):
        library = self.build('const char path[] = "/opt/cuda/lib64/libcudnn.so.9";', f"{self.folder}/libwith_path.so", "-shared",
                             "-Wl,-soname,libwith_path.so")
        source = "#include <stdio.h>\nextern char** environ;" \
            "int main(void) { for (char** e = environ; *e; ++e) puts(*e); return 0; }"
        program = self.build(source, f"{self.folder}/with_library", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{self.folder}")
        self.assertEqual(self.both(), self.preloads("--", program))

    def test_python_with_the_cudnn_package_gets_the_hook(self):
        self.assertEqual(self.drop_in, self.preloads("--", self.python("plain", "torch/__init__.py")))
        self.assertEqual(self.both(), self.preloads("--", self.python("frontend", self.COMPILED)))
        # A folder of that name alone is not NVIDIA's package.
        self.assertEqual(self.drop_in, self.preloads("--", self.python("namesake", "cudnn/__init__.py")))

    def test_script_of_such_a_python_gets_the_hook(self):
        python = self.python("scripted", self.COMPILED)
        script = f"{self.folder}/train"
        for first in f"#!{python}", "#!/usr/bin/env python3", "#!/usr/bin/env -S python3":
            with open(script, "w") as file:
                file.write(first + "\n")
            os.chmod(script, 0o755)
            path = f"{os.path.dirname(python)}:{os.environ['PATH']}"
            self.assertEqual(self.both(), self.preloads("--", script, "argument", PATH=path), first)
            # This holds however many files it is given.
            many = [self.script(f"given/{i}.py", "import torch\n") for i in range(100)]
            self.assertEqual(self.both(), self.preloads("--", script, *many, PATH=path), first)

    def launched(self, python, name):
        """Yields commands that start `python` in the ways in which people do."""
        script = self.script(f"{name}/start.sh", f"#!/bin/sh\n# begins\nexec {python} \"$@\"\n")
        in_path = f"{os.path.dirname(python)}:{os.environ['PATH']}"
        activate = self.script(f"{name}/bin/activate", "PATH=unknown", 0o644)
        yield ["env", "A=b", python], {}
        yield ["nice", python], {}
        yield ["timeout", "20", python], {}
        yield ["env", "nice", "-n", "1", "timeout", "20", "python3"], {"PATH": in_path}
        yield ["bash", "-c", "exec python3 a b"], {"PATH": in_path}
        yield ["nice", "sh", "-c", f"cd /;{python}"], {}
        yield [script], {}
        yield ["nice", script, "a", "b"], {}
        yield ["sh", self.script(f"{name}/unmarked", f"A='{python}'; exec $A\n", 0o644)], {}
        yield [self.script(f"{name}/outer.sh", f"#!/usr/bin/env bash\n. {script}\n")], {}
        yield [self.script(f"{name}/venv.sh", f"#!/bin/sh\n: . {activate}\nexec {self.program}\n")], {}

    def test_python_behind_launchers_and_shell_scripts_is_found(self):
        with_package = self.python("behind", self.COMPILED)
        without = self.python("behind_without", "torch/__init__.py")
        for words, variables in self.launched(with_package, "behind"):
            self.assertEqual(self.both(), self.preloads("--", *words, **variables), words)
        for words, variables in self.launched(without, "behind_without"):
            self.assertEqual(self.drop_in, self.preloads("--", *words, **variables), words)

    def test_python_that_is_a_version_managers_script_is_looked_for(self):
        self.python("manager/versions/3.11.7", self.COMPILED)
        self.python("other/versions/3.11.7", "torch/__init__.py")
        for manager, expected in ("manager", self.both()), ("other", self.drop_in):
            shims = os.path.dirname(self.script(f"{manager}/shims/python3", f"#!/bin/sh\nexec {self.program} a b\n"))
            self.assertEqual(expected, self.preloads("--", "python3", PATH=f"{shims}:{os.environ['PATH']}"), manager)
        # Whichever Python it starts has what PYTHONPATH names.
        modules = f"{self.folder}/manager/versions/3.11.7/lib/python3.11/site-packages"
        self.assertEqual(self.both(), self.preloads("--", f"{self.folder}/other/shims/python3", PYTHONPATH=modules))

    def test_script_that_names_cudnn_gets_the_hook(self):
        python = self.python("reader", "torch/__init__.py")
        opens = "import ctypes, os\nctypes.CDLL(os.path.join('/opt', 'libcudnn.so.9'))\n"
        for words in (
                [python, self.script("names/opens.py", opens, 0o644), "a"],
                [python, "-u", self.script("names/opens", opens, 0o644)],
                ["nice", python, "names/opens.py", "a"],
                [self.script("names/marked", f"#!{python}\n{opens}"), "a"],
                [self.script("names/run.sh", f"#!/bin/sh\ncd .\nexec {python} names/opens.py a\n")],
                [python, "-c", opens],
                ["sh", "-c", f"exec {python} -c \"{opens}\""],
                [self.script("names/xla.sh", f"#!/bin/sh\nexport XLA_GPU_LIBRARY_PATH=/opt\nexec {self.program}\n")]):
            self.assertEqual(self.both(), self.preloads("--", *words), words)
        for words in (
                [python, self.script("names/plain.py", "import torch\n# not libcudnn.so.9\n"), "a"],
                [python, "names/plain.py", self.script("names/run.log", "loaded /opt/libcudnn.so.9\n", 0o644)]):
            self.assertEqual(self.drop_in, self.preloads("--", *words), words)

    def test_word_with_a_path_to_cudnn_gets_the_hook(self):
        for word in "/opt/libcudnn.so.9", "--cudnn=/opt/libcudnn.so", "lib/libcudnn.so.9.19.0":
            self.assertEqual(self.both(), self.preloads("--", self.program, word, "b"), word)
            self.assertEqual(self.both(), self.preloads("--", "nice", self.program, "a", word), word)
        self.assertEqual(self.both(), self.preloads("--", "env", "XLA_GPU_LIBRARY_PATH=/opt", self.program))
        self.assertEqual(self.drop_in, self.preloads("--", self.program, "libcudnn.so.9", "b"))

    def test_program_with_a_path_to_cudnn_is_found_behind_others(self):
        source = "#include <stdio.h>\nextern char** environ;\n__attribute__((used)) static const char path[] =" \
            '"/opt/libcudnn.so.9"; int main(void) { for (char** e = environ; *e; ++e) puts(*e); return 0; }'
        program = self.build(source, f"{self.folder}/behind_others")
        script = self.script("start_others.sh", "#!/bin/sh\nexec ./behind_others\n")
        for words in ["nice", program], ["sh", "-c", "./behind_others"], [script]:
            self.assertEqual(self.both(), self.preloads("--", *words), words)

    def test_files_that_are_no_scripts_do_no_harm(self):
        folder = f"{self.folder}/odd"
        self.script("odd/a", f"#!{folder}/b\n")
        self.script("odd/b", f"#!{folder}/a\n")
        self.script("odd/self", f"#!{folder}/self\n")
        self.script("odd/nothing", "#!")
        self.script("odd/empty", "")
        self.script("odd/env", "#!/usr/bin/env -S A=b\n")
        self.script("odd/binary", b"#!/bin/sh\nexit\n" + bytes(range(256)) * 64 + b"/opt/libcudnn.so.9")
        self.script("odd/huge.py", b"a = 1\n" * (1 << 20) + b"'/opt/libcudnn.so.9'")
        self.script("odd/words.sh", " ".join(f"w{i}" for i in range(9000)))
        self.script("odd/damaged", b"\x7fELF" + b"\xff" * 60)
        self.script("odd/unreadable.sh", "#!/bin/sh\n", 0o111)
        os.mkfifo(f"{folder}/fifo", 0o777)
        os.mkdir(f"{folder}/folder.py")
        os.symlink("loop", f"{folder}/loop")
        os.symlink("nowhere", f"{folder}/dangling.py")
        words = sorted(f"odd/{name}" for name in os.listdir(folder))
        self.assertEqual(self.drop_in, self.preloads("--", self.program, "", *words))
        self.assertEqual(self.drop_in, self.preloads("--", "sh", "-c", f"exec {self.program}", *words, "\xff" * 9000))

    def test_doctor_says_what_it_cannot_look_through(self):
        plain = self.reason(self.program, "a", "b")
        self.assertEqual("preload, no dlsym hook (nothing seen opens cuDNN by its path)", plain)
        script = self.script("unseen.sh", f"#!/bin/sh\nexec {self.program}\n")
        for words, unseen in ([script], script), (["nice", "sh", "-c", self.program], "sh"), (["nice", script], script):
            self.assertEqual("preload, no dlsym hook (nothing seen opens cuDNN by its path, but "
                             f"{unseen} cannot be looked through: --dlsym on if what it starts does)", self.reason(*words))
        opens = self.script("seen.py", "name = 'libcudnn.so.9'\n")
        python = self.python("seen", "torch/__init__.py")
        self.assertEqual(f"preload and dlsym hook ({opens} names libcudnn)", self.reason("nice", python, opens))
        package = os.path.dirname(f"{self.folder}/told/lib/python3.11/site-packages/{self.COMPILED}")
        python = self.python("told", self.COMPILED)
        self.assertEqual(f"preload and dlsym hook ({package} opens cuDNN by its path)", self.reason("nice", python))

    def test_modules_of_the_environment_count(self):
        self.python("modules", self.COMPILED)
        python = self.python("without", "torch/__init__.py")
        modules = f"{self.folder}/modules/lib/python3.11/site-packages"
        self.assertEqual(self.both(), self.preloads("--", python, PYTHONPATH=modules))

    def test_packages_of_the_user_count(self):
        """Packages of `pip install --user` count where Python would look for them."""
        self.python("home/.local", self.COMPILED)
        home = f"{self.folder}/home"
        python = self.python("users", "torch/__init__.py")
        self.assertEqual(self.drop_in, self.preloads("--", python))
        self.assertEqual(self.both(), self.preloads("--", python, HOME=home))
        self.assertEqual(self.both(), self.preloads("--", python, PYTHONUSERBASE=f"{home}/.local"))
        self.assertEqual(self.drop_in, self.preloads("--", python, HOME=home, PYTHONUSERBASE=self.folder))
        self.assertEqual(self.drop_in, self.preloads("--", python, HOME=home, PYTHONNOUSERSITE="1"))
        # A virtual environment looks there only if it was told to.
        settings = f"{self.folder}/users/pyvenv.cfg"
        for value, expected in ("false", self.drop_in), ("true", self.both()):
            with open(settings, "w", encoding="utf-8") as file:
                file.write(f"home = /usr/bin\ninclude-system-site-packages = {value}\nversion = 3.11.2\n")
            self.assertEqual(expected, self.preloads("--", python, HOME=home), value)

    def test_xla_told_to_open_libraries_by_path_gets_the_hook(self):
        self.assertEqual(self.both(), self.preloads("--", self.program, XLA_GPU_LIBRARY_PATH="/opt/cuda"))

    def test_hook_is_asked_for_and_kept_away(self):
        self.assertEqual(self.both(), self.preloads("--dlsym", "on", "--", self.program))
        self.assertNotIn("LD_PRELOAD", self.environment_of("run", "--off", "--dlsym", "on", "--", self.program))

    def test_this_python_is_looked_into(self):
        """In the interpreter's own layout, a package put beside it is found."""
        folder = f"{self.folder}/own"
        os.makedirs(f"{folder}/cudnn")
        open(f"{folder}/{self.COMPILED}", "w").close()
        words = ["--", sys.executable, "-c", "import os\nfor item in os.environ.items(): print('='.join(item))"]
        self.assertEqual(self.both(), self.preloads(*words, PYTHONPATH=folder))


if __name__ == "__main__":
    unittest.main()
