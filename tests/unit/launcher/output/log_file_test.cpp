#include "launcher/output/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <vector>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

TEST_CASE("a log file takes bytes as they are, behind those that are there") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/out.log";
  const std::string bytes("a\0\xff\r", 4);
  for (int i = 0; i < 2; ++i) {
    auto fd = open_log_file(path);
    REQUIRE(fd.ok());
    LogFile(path, std::move(fd).value()).write(bytes, {});
  }
  bool cut = false;
  CHECK(last_bytes_of_file(path, 100, cut) == bytes + bytes);
  CHECK_FALSE(cut);
  CHECK(last_bytes_of_file(path, 3, cut) == bytes.substr(1));
  CHECK(cut);
}

TEST_CASE("a full device is told once") {
  auto fd = open_log_file("/dev/full");
  REQUIRE(fd.ok());
  LogFile file("/dev/full", std::move(fd).value());
  std::vector<std::string> told;
  for (int i = 0; i < 3; ++i) file.write("x", [&](const std::string& text) { told.push_back(text); });
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Catch::Contains("/dev/full: No space left on device"));
  CHECK_FALSE(file);
}

TEST_CASE("a FIFO that nobody reads is an error, and not a wait for ever") {
  const TemporaryDirectory directory;
  REQUIRE(::mkfifo((directory.path() + "/fifo").c_str(), 0600) == 0);
  CHECK_FALSE(open_log_file(directory.path() + "/fifo").ok());
}

TEST_CASE("the descriptor of a log file waits like any other file's") {
  const TemporaryDirectory directory;
  auto fd = open_log_file(directory.path() + "/out.log");
  REQUIRE(fd.ok());
  CHECK((::fcntl(fd.value().get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK((::fcntl(fd.value().get(), F_GETFD) & FD_CLOEXEC) != 0);
}
