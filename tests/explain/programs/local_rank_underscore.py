# cause: local-rank-underscore
# torch: 1.13 2.13
# ranks: 1
import argparse
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.parse_args([*sys.argv[1:], "--local_rank=0"])
