"""ddplaunch starts training jobs of several processes and keeps watch over them.

The command `ddplaunch` is a program of its own, which does not start Python. This package tells where its files are.
"""
import os
import sysconfig

from .version import __version__

__all__ = ["__version__", "cmake_prefix", "command"]


def command():
    """The path of the launcher."""
    return os.path.join(sysconfig.get_path("scripts"), "ddplaunch")


def cmake_prefix():
    """For -DCMAKE_PREFIX_PATH=, so that find_package(ddplaunch) finds the C++ library."""
    return sysconfig.get_path("data")
