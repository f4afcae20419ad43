"""What is done on first use: names of packages are imported, properties computed."""

from collections.abc import Callable, Mapping
from functools import update_wrapper
from importlib import import_module
from typing import Any, Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: it imports a name from its module when the name is first used.

    Parameters
    ----------
    package
        The ``__name__`` of the package.
    modules
        The modules of the package, each with its names, separated by spaces.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def import_name(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return import_name


class computed_once(Generic[S, T]):  # noqa: N801 - used like a property
    """A property that is computed when it is first read, and kept in the object under its name.

    ``functools.cached_property`` has a lock before Python 3.12: a child of a process that forks while another thread
    computes would wait for it for ever. Here concurrent first readers may each compute the value.
    """

    def __init__(self, function: Callable[[S], T]) -> None:
        self._function = function
        update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, owner: S, _: type) -> T:
        value = vars(owner)[self._function.__name__] = self._function(owner)
        return value
