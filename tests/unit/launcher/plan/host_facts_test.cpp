#include "launcher/plan/host_facts.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

void make_file(const std::string& path, int mode) {
  std::ofstream(path) << "#!/bin/sh\n";
  ::chmod(path.c_str(), static_cast<mode_t>(mode));
}

}  // namespace

TEST_CASE("a program that does not exist is not found and a similar one is suggested") {
  const TemporaryDirectory directory;
  make_file(directory.path() + "/train", 0755);
  const ProgramFacts facts = gather_host_facts(directory.path() + "/trian").program;
  CHECK_FALSE(facts.found);
  CHECK(facts.suggestion == directory.path() + "/train");
}

TEST_CASE("a file that is not executable is found but not executable") {
  const TemporaryDirectory directory;
  make_file(directory.path() + "/train.py", 0644);
  const ProgramFacts facts = gather_host_facts(directory.path() + "/train.py").program;
  CHECK(facts.found);
  CHECK_FALSE(facts.executable);
}

TEST_CASE("a directory is found and is no program") {
  const ProgramFacts facts = gather_host_facts("/tmp").program;
  CHECK(facts.found);
  CHECK(facts.is_directory);
  CHECK_FALSE(facts.executable);
}

TEST_CASE("a name without a slash is searched for in PATH") {
  CHECK(gather_host_facts("sh").program.executable);
  CHECK(gather_host_facts("sh").program.path.ends_with("/sh"));
  CHECK_FALSE(gather_host_facts("no-such-program-here").program.found);
}

TEST_CASE("facts of the host are plausible") {
  const HostFacts facts = gather_host_facts("sh");
  CHECK(facts.cpu_count >= 1);
  CHECK(facts.gpu_count >= 0);
  CHECK_FALSE(facts.host_name.empty());
  CHECK(find_variable(facts.environment, "PATH").has_value());
  CHECK(facts.random_id != gather_host_facts("sh").random_id);
}

TEST_CASE("a variable is found by its whole name") {
  const std::vector<std::string> environment = {"AB=1", "A=2", "EMPTY="};
  CHECK(find_variable(environment, "A") == "2");
  CHECK(find_variable(environment, "EMPTY") == "");
  CHECK_FALSE(find_variable(environment, "B").has_value());
}
