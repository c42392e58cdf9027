"""ddplaunch starts training jobs of several processes and supervises them.

The command `ddplaunch` is a separate program, which does not start Python. This package returns the paths of its files.
It also has the functions by which a program shows ddplaunch what it is doing (see ddp_page). They do nothing without
ddplaunch.
"""
import os
import sysconfig

from ddp_page import PHASES, extend, heartbeat, phase, progress, should_stop

from .version import __version__

__all__ = ["PHASES", "__version__", "cmake_prefix", "command", "extend", "heartbeat", "nothing_lost", "phase", "progress",
           "should_stop", "status_page"]


def command():
    """Returns the path of the launcher."""
    return os.path.join(sysconfig.get_path("scripts"), "ddplaunch")


def cmake_prefix():
    """Returns the value for -DCMAKE_PREFIX_PATH=, so that find_package(ddplaunch) finds the C++ library."""
    return sysconfig.get_path("data")


def nothing_lost(**parts):
    """Keeps the state of a PyTorch program in memory that outlives it, and loads it after a restart: see ddp_state."""
    import ddp_state  # it imports PyTorch

    return ddp_state.nothing_lost(**parts)


def status_page():
    """Returns the descriptor of this worker's status page, or None without ddplaunch.

    docs/development/protocol.md describes the status page.
    """
    number = os.environ.get("DDP_PAGE_FD", "")
    return int(number) if number.isdigit() else None
