"""ddplaunch starts training jobs of several processes and keeps watch over them.

The command `ddplaunch` is a program of its own, which does not start Python. This package tells where its files are, and
has the functions by which a program shows ddplaunch what it is at (see ddp_board): nothing is done without ddplaunch.
"""
import os
import sysconfig

from ddp_board import PHASES, extend, heartbeat, phase, progress, should_stop

from .version import __version__

__all__ = ["PHASES", "__version__", "cmake_prefix", "command", "extend", "heartbeat", "phase", "progress", "should_stop",
           "status_page"]


def command():
    """The path of the launcher."""
    return os.path.join(sysconfig.get_path("scripts"), "ddplaunch")


def cmake_prefix():
    """For -DCMAKE_PREFIX_PATH=, so that find_package(ddplaunch) finds the C++ library."""
    return sysconfig.get_path("data")


def status_page():
    """The descriptor of this worker's status page, which docs/development/protocol.md describes; None without ddplaunch."""
    number = os.environ.get("DDP_BOARD_FD", "")
    return int(number) if number.isdigit() else None
