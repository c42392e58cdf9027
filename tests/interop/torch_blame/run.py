"""run.py NAME: runs one of the programs as a rank of ddplaunch."""
import sys

import failures  # noqa: F401
import losses  # noqa: F401
from common import PROGRAMS, Rank

chosen = PROGRAMS[sys.argv[1]]
chosen.run(Rank(chosen.culprit))
