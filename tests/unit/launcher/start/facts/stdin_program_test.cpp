#include "launcher/start/facts/stdin_program.h"

#include "support/catch.h"

using ddp::launcher::reads_program_from_stdin;
using Words = std::vector<std::string>;

TEST_CASE("an interpreter that reads its program from standard input is recognised") {
  for (const Words& command : {Words{"python3", "-"},
                               {"python3"},
                               {"/opt/venv/bin/python3.11", "-u", "-", "--epochs", "3"},
                               {"python3", "-X", "dev", "-Wignore", "-"},
                               {"python3", "-i"},
                               {"python", "/dev/stdin"},
                               {"python", "--", "-"},
                               {"pypy3", "-"},
                               {"bash"},
                               {"/bin/sh", "-"},
                               {"sh", "-s", "a"},
                               {"bash", "-eus"},
                               {"bash", "-e", "-o", "pipefail"},
                               {"bash", "+x", "/proc/self/fd/0"},
                               {"bash", "--rcfile", "/dev/null"},
                               {"bash", "--"},
                               {"perl", "-w", "-"},
                               {"ruby"},
                               {"node", "-"},
                               {"env", "X=1", "python3", "-"},
                               {"timeout", "5", "bash", "-s"},
                               {"numactl", "-N0", "python3"},
                               {"uv", "run", "python", "-"}}) {
    CAPTURE(command);
    CHECK(reads_program_from_stdin(command));
  }
}

TEST_CASE("other commands do not read their program from standard input") {
  for (const Words& command : {Words{},
                               {"./train"},
                               {"./train", "-"},
                               {"cat", "-"},
                               {"python3", "train.py", "-"},
                               {"python3", "-m", "train"},
                               {"python3", "-um", "train"},
                               {"python3", "-c", "print(1)"},
                               {"python3", "-V"},
                               {"python3", "--version"},
                               {"python3", "-W", "ignore", "train.py"},
                               {"python-config"},
                               {"sh", "-c", "cat"},
                               {"bash", "-lc", "./train"},
                               {"bash", "-o", "pipefail", "run.sh"},
                               {"bash", "--version"},
                               {"bash", "--", "run.sh"},
                               {"perl", "-e", "print 1"},
                               {"node", "--eval", "1"},
                               {"node", "-r", "x", "train.js"},
                               {"timeout", "5", "bash", "run.sh"},
                               {"env", "python3", "train.py"},
                               {"conda", "run", "-n", "env", "python", "a.py"}}) {
    CAPTURE(command);
    CHECK_FALSE(reads_program_from_stdin(command));
  }
}
