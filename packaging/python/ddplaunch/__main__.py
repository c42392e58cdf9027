"""python -m ddplaunch ...: the launcher, and with --cmake-prefix alone the folder for CMAKE_PREFIX_PATH."""
import os
import sys

import ddplaunch

if sys.argv[1:] == ["--cmake-prefix"]:
    print(ddplaunch.cmake_prefix())
else:
    os.execv(ddplaunch.command(), ["ddplaunch", *sys.argv[1:]])
