#include "launcher/top/stack_lines.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

TEST_CASE("the lines of a rank's stacks name its threads, its frames and what is missing") {
  RankStacks stacks;
  stacks.source = "py-spy";
  stacks.threads = {{42, "python", {"wait (work.cpp:7)", "train (train.py:83)"}}, {0, "", {"?? (0x1)"}}};
  stacks.missing = {"gdb: not found in PATH"};
  CHECK(stack_lines(stacks) == Lines{"source: py-spy", "thread 42 (python):", "  wait (work.cpp:7)",
                                     "  train (train.py:83)", "thread:", "  ?? (0x1)",
                                     "not available: gdb: not found in PATH"});
  CHECK(stack_lines({}).empty());
}
