"""Imports a few modules of a large Python project and nothing else of it.

The named modules are loaded from a tree of sources; whatever else they import of their project, and
packages that are not installed, are empty stand-ins.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from array import array


class Stub:
    """Stands for whatever a module imports and the measured code does not use."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub()

    def __call__(self, *_, **__):
        return Stub()

    def __getitem__(self, _):
        return Stub()

    def __or__(self, _):
        return Stub()

    __ror__ = __or__

    def __mro_entries__(self, _):
        return ()


class StubModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads the named modules of a package from its tree, and stubs for all others of it."""

    def __init__(self, package, folder, modules):
        self.package = package
        self.folder = folder
        self.modules = modules

    def find_spec(self, name, path=None, target=None):
        if name != self.package and not name.startswith(self.package + "."):
            return None
        if name in self.modules:
            file = self.folder.joinpath(*name.split(".")).with_suffix(".py")
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StubModule(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def stub_if_missing(*packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            sys.meta_path.append(Finder(package, None, ()))


class Slots(array):
    """A tensor of slot numbers."""

    def __new__(cls, values=()):
        return super().__new__(cls, "q", values)

    def __getitem__(self, index):
        value = super().__getitem__(index)
        return Slots(value) if isinstance(index, slice) else value

    def clone(self):
        return Slots(self)


def stand_in_for_torch():
    torch = StubModule("torch")
    torch.Tensor = Slots
    torch.device = str
    torch.tensor = lambda values, **_: Slots(values)
    torch.empty = lambda _shape, **_kw: Slots()

    def cat(parts):
        whole = Slots()
        for part in parts:
            whole.extend(part)
        return whole

    torch.cat = cat
    sys.modules["torch"] = torch
