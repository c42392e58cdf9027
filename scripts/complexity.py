#!/usr/bin/env python3
"""complexity.py [COUNT]: lists the most complex functions of the product (25 if COUNT is not given), by the number of
their branches, as lizard counts them (pip install lizard). Marks those that judge hangs, and prints how many they are.
"""
import csv
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 25
OF_HANGS = ("src/launcher/run/ranks/", "src/launcher/run/watchdog/", "src/launcher/see/report/hang_report")

listed = subprocess.run([sys.executable, "-m", "lizard", "-l", "cpp", "-C", "1000", "--csv", "src"], cwd=ROOT,
                        capture_output=True, text=True)
if listed.returncode != 0:
    sys.exit(f"complexity.py: lizard does not run: {listed.stderr.strip()[-200:]}; install it with pip install lizard")
rows = sorted(csv.reader(listed.stdout.splitlines()), key=lambda row: (-int(row[1]), row[6], row[7]))[:COUNT]
hangs = 0
for row in rows:
    is_of_hangs = row[6].startswith(OF_HANGS)
    hangs += is_of_hangs
    print(f"{row[1]:>4} branches {'hang' if is_of_hangs else '    '}  {row[6]}  {row[7]}")
print(f"{hangs} of the {len(rows)} most complex functions judge hangs")
