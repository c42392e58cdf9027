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
