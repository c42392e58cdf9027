#include "launcher/run/process/our_programs.h"

#include <unistd.h>

#include <filesystem>

#include "support/catch.h"

using ddp::launcher::our_program;

TEST_CASE("ddplaunch's own programs are found beside it or in the installation directory") {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  CHECK(our_program(self.filename()) == self);
  const std::filesystem::path elsewhere = our_program("no_such_program");
  CHECK(elsewhere.filename() == "no_such_program");
  CHECK(elsewhere.parent_path() != self.parent_path());
}
