#include "base/file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

TEST_CASE("read_file returns the whole file, including zero bytes") {
  const TemporaryDirectory folder;
  const std::string content("a\0b\n", 4);
  std::ofstream(folder.path() + "/f", std::ios::binary) << content;
  CHECK(ddp::base::read_file(folder.path() + "/f") == content);
  CHECK_FALSE(ddp::base::read_file("/proc/self/status").empty());
}

TEST_CASE("the first line of a file is returned without its newline") {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() + "/f") << "one\ntwo\n";
  CHECK(ddp::base::read_line(folder.path() + "/f") == "one");
  std::ofstream(folder.path() + "/f") << "one";
  CHECK(ddp::base::read_line(folder.path() + "/f") == "one");
  CHECK(ddp::base::read_line(folder.path() + "/none").empty());
}

TEST_CASE("reading a file that cannot be read gives an empty text") {
  const TemporaryDirectory folder;
  CHECK(ddp::base::read_file(folder.path() + "/none").empty());
  CHECK(ddp::base::read_file(folder.path()).empty());
}

TEST_CASE("a path is resolved through symbolic links, whether its target exists or not") {
  namespace fs = std::filesystem;
  const TemporaryDirectory folder;
  const std::string at = folder.path() + "/";
  fs::create_directory(at + "elsewhere");
  fs::create_symlink("elsewhere/file", at + "link");
  fs::create_symlink(at + "link", at + "absolute");
  fs::create_symlink("circle", at + "circle");
  CHECK(ddp::base::behind_links(at + "absolute") == at + "elsewhere/file");
  CHECK(ddp::base::behind_links(at + "none") == at + "none");
  CHECK(ddp::base::behind_links("none") == "none");
  CHECK(ddp::base::behind_links(at + "circle") == at + "circle");
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const std::string nameless = "/proc/self/fd/" + std::to_string(pipe[0]);
  CHECK(ddp::base::behind_links(nameless) == nameless);
  ::close(pipe[0]);
  ::close(pipe[1]);
}
