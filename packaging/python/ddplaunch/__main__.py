"""python -m ddplaunch runs the launcher; with --cmake-prefix alone it prints the directory for CMAKE_PREFIX_PATH."""
import os
import sys

import ddplaunch

if sys.argv[1:] == ["--cmake-prefix"]:
    print(ddplaunch.cmake_prefix())
else:
    os.execv(ddplaunch.command(), ["ddplaunch", *sys.argv[1:]])
