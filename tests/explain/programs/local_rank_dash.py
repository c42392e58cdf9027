# cause: local-rank-dash
# torch: 1.13 2.13
# ranks: 1
import argparse
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
parser.parse_args([*sys.argv[1:], "--local-rank=0"])
