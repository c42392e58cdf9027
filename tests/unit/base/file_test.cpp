#include "base/file.h"

#include <catch2/catch.hpp>

#include <fstream>

#include "support/temporary_directory.h"

TEST_CASE("a file is read whole, zero bytes too") {
  const TemporaryDirectory folder;
  const std::string content("a\0b\n", 4);
  std::ofstream(folder.path() + "/f", std::ios::binary) << content;
  CHECK(ddp::base::read_file(folder.path() + "/f") == content);
  CHECK_FALSE(ddp::base::read_file("/proc/self/status").empty());
}

TEST_CASE("what cannot be read is empty") {
  const TemporaryDirectory folder;
  CHECK(ddp::base::read_file(folder.path() + "/none").empty());
  CHECK(ddp::base::read_file(folder.path()).empty());
}
