"""`ucudnn run` looks at a program and preloads what it takes to reach it: the drop-in, and the dlsym hook only where
something of the program opens cuDNN by its path."""

import os
import sys
import unittest

from command import CommandTest


class Reach(CommandTest):
    def preloads(self, *words, **variables):
        return self.environment_of("run", *words, **variables)["LD_PRELOAD"]

    def both(self):
        return f"{self.drop_in}:{self.dlsym_hook}"

    def python(self, name, *modules):
        """A Python environment that prints its variables whatever it is asked; with these packages."""
        prefix = f"{self.folder}/{name}"
        for module in modules:
            os.makedirs(f"{prefix}/lib/python3.11/site-packages/{os.path.dirname(module)}")
            open(f"{prefix}/lib/python3.11/site-packages/{module}", "w").close()
        os.makedirs(f"{prefix}/bin", exist_ok=True)
        os.link(self.program, f"{prefix}/bin/python3.11")
        os.symlink("python3.11", f"{prefix}/bin/python3")
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
        # A folder of that name is not yet NVIDIA's package.
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

    def test_modules_of_the_environment_count(self):
        self.python("modules", self.COMPILED)
        python = self.python("without", "torch/__init__.py")
        modules = f"{self.folder}/modules/lib/python3.11/site-packages"
        self.assertEqual(self.both(), self.preloads("--", python, PYTHONPATH=modules))

    def test_packages_of_the_user_count(self):
        """What `pip install --user` leaves is looked into where Python would."""
        self.python("home/.local", self.COMPILED)
        home = f"{self.folder}/home"
        python = self.python("users", "torch/__init__.py")
        self.assertEqual(self.drop_in, self.preloads("--", python))
        self.assertEqual(self.both(), self.preloads("--", python, HOME=home))
        self.assertEqual(self.both(), self.preloads("--", python, PYTHONUSERBASE=f"{home}/.local"))
        self.assertEqual(self.drop_in, self.preloads("--", python, HOME=home, PYTHONUSERBASE=self.folder))
        self.assertEqual(self.drop_in, self.preloads("--", python, HOME=home, PYTHONNOUSERSITE="1"))
        # A virtual environment looks there only where it was told to.
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
        self.assert_refused(["run", "--dlsym", "maybe", "--", self.program], "--dlsym 'maybe': not auto, on or off")
        self.assert_refused(["doctor", "--dlsym", "maybe", "--", self.program], "--dlsym 'maybe': not auto, on or off")

    def test_this_python_is_looked_into(self):
        """The interpreter's own layout: a package put beside it is found."""
        folder = f"{self.folder}/own"
        os.makedirs(f"{folder}/cudnn")
        open(f"{folder}/{self.COMPILED}", "w").close()
        words = ["--", sys.executable, "-c", "import os\nfor item in os.environ.items(): print('='.join(item))"]
        self.assertEqual(self.both(), self.preloads(*words, PYTHONPATH=folder))


if __name__ == "__main__":
    unittest.main()
