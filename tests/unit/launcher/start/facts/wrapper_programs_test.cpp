#include "launcher/start/facts/wrapper_programs.h"

#include <sys/stat.h>

#include <fstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using ddp::launcher::is_wrapper;
using ddp::launcher::runs_python;
using Words = std::vector<std::string>;

TEST_CASE("commands that run a Python program are recognised") {
  const TemporaryDirectory directory;
  const auto file = [&](const std::string& name, const std::string& text) {
    const std::string path = directory.path() + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0755);
    return path;
  };
  const std::string shell_python = file("run.sh", "#!/bin/bash\nsource env.sh\npython train.py \"$@\"\n");
  const std::string shell = file("mpi.sh", "#!/bin/bash\n./train \"$@\"\n");
  const std::string console_script = file("trainer", "#!/opt/venv/bin/python3\nfrom trainer import main\nmain()\n");
  const std::string native = file("train", std::string("\177ELF\0python", 11));
  const Words environment{"PATH=" + directory.path()};

  for (const Words& command : {Words{"python", "a.py"},
                               {"/opt/venv/bin/python3.11", "-m", "train"},
                               {"uv", "run", "train.py"},
                               {"bash", shell_python},
                               {shell_python},
                               {"sh", "-c", "cd x && python3 train.py"},
                               {"trainer", "--fast"},
                               {"conda", "run", "-n", "env", "python", "a.py"},
                               {"poetry", "run", "trainer"},
                               {"timeout", "5", console_script}}) {
    CAPTURE(command);
    CHECK(runs_python(command, environment));
  }
  for (const Words& command : {Words{},
                               {native, "--config", "python.py"},
                               {native, shell_python},
                               {"bash", shell},
                               {"numactl", "-N0", native},
                               {"missing"},
                               {"sh", "-c", "./train"}}) {
    CAPTURE(command);
    CHECK_FALSE(runs_python(command, environment));
  }
  CHECK(is_wrapper("uv"));
  CHECK_FALSE(is_wrapper("train"));
}
