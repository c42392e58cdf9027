#include "launcher/process/run_directory.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

class TmpdirIs {
 public:
  explicit TmpdirIs(const std::string& path) { ::setenv("TMPDIR", path.c_str(), 1); }
  ~TmpdirIs() { ::unsetenv("TMPDIR"); }
};

}  // namespace

TEST_CASE("a directory that cannot be made is a failure that names TMPDIR") {
  const TmpdirIs tmpdir("/no/such/place");
  const auto result = RunDirectory::create(1);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message.find("TMPDIR") != std::string::npos);
}

TEST_CASE("each rank can write its error file and all is removed in the end") {
  const TemporaryDirectory parent;
  const TmpdirIs tmpdir(parent.path());
  {
    const auto directory = RunDirectory::create(3);
    REQUIRE(directory.ok());
    for (int rank = 0; rank < 3; ++rank) {
      std::ofstream file(directory.value()->error_file(rank));
      CHECK(file.is_open());
      file << "{}";
    }
    CHECK(directory.value()->error_file(2).ends_with("/attempt_0/2/error.json"));
  }
  CHECK(std::filesystem::is_empty(parent.path()));
}

TEST_CASE("what a killed launcher left is removed by the next one and what a living one has is not") {
  const TemporaryDirectory parent;
  const TmpdirIs tmpdir(parent.path());
  namespace fs = std::filesystem;
  // As after SIGKILL: the directory and its lock file are there, nobody holds the lock.
  fs::create_directories(parent.path() + "/ddplaunch-dead/attempt_0/0");
  std::ofstream(parent.path() + "/ddplaunch-dead/lock") << "";
  // Not ours: no lock file, another name, no directory.
  fs::create_directories(parent.path() + "/ddplaunch-young");
  fs::create_directories(parent.path() + "/other");
  std::ofstream(parent.path() + "/ddplaunch-file") << "";

  const auto living = RunDirectory::create(1);
  const auto next = RunDirectory::create(1);
  REQUIRE(living.ok());
  REQUIRE(next.ok());
  CHECK_FALSE(fs::exists(parent.path() + "/ddplaunch-dead"));
  CHECK(fs::exists(parent.path() + "/ddplaunch-young"));
  CHECK(fs::exists(parent.path() + "/other"));
  CHECK(fs::exists(parent.path() + "/ddplaunch-file"));
  CHECK(std::ofstream(living.value()->error_file(0)).is_open());
  CHECK(std::ofstream(next.value()->error_file(0)).is_open());
}
