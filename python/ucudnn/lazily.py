"""Loads the names of a package that needs torch: torch is imported with the first name that needs it and not before."""
import importlib
import sys


def getter(package, homes):
    """Returns the `__getattr__` of `package`. `homes` maps each of its names to a module: {name: module}. An imported
    name becomes an attribute of the package. ImportError if this Python has no torch."""
    def get(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "torch":
                raise
            raise ImportError(f"{package}.{name} needs torch, and this Python ({sys.executable}) has none that it finds: "
                              "pip install torch") from error
        setattr(sys.modules[package], name, value)
        return value
    return get
