"""Runs programs by their names, some at once, and prints for each whether it did as expected."""
import concurrent.futures
from collections.abc import Callable, Sequence

MOST_OUTPUT = 6000  # characters that are shown of a program that did not


def run_named(names: Sequence[str], run: Callable[[str], tuple[str, str]], at_once: int,
              label: Callable[[str], str] = str) -> int:
    """Returns the exit code of the test. `run` returns what is wrong with a program, or "", and the program's output.
    `label` describes a program in its line."""
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for name, (fault, output) in zip(names, pool.map(run, names)):
            print(f"{'WRONG' if fault else 'right'}  {label(name)}", flush=True)
            if fault:
                wrong += 1
                print(f"{fault}\n{output[-MOST_OUTPUT:]}", flush=True)
    print(f"{len(names) - wrong} of {len(names)} right")
    return 1 if wrong else 0
