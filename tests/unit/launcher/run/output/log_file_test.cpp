#include "launcher/run/output/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a log file appends bytes unchanged") {
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

TEST_CASE("a full disk is reported once") {
  auto fd = open_log_file("/dev/full");
  REQUIRE(fd.ok());
  LogFile file("/dev/full", std::move(fd).value());
  std::vector<std::string> messages;
  for (int i = 0; i < 3; ++i) file.write("x", [&](const std::string& text) { messages.push_back(text); });
  REQUIRE(messages.size() == 1);
  CHECK_THAT(messages[0], Catch::Contains("/dev/full: No space left on device"));
  CHECK_FALSE(file);
}

TEST_CASE("a FIFO without a reader is an error and does not block") {
  const TemporaryDirectory directory;
  REQUIRE(::mkfifo((directory.path() + "/fifo").c_str(), 0600) == 0);
  CHECK_FALSE(open_log_file(directory.path() + "/fifo").ok());
}

TEST_CASE("a blocking descriptor of a log file stays blocking") {
  const TemporaryDirectory directory;
  auto fd = open_log_file(directory.path() + "/out.log");
  REQUIRE(fd.ok());
  CHECK((::fcntl(fd.value().get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK((::fcntl(fd.value().get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("lines that contain a filter word are written to the file with their tag") {
  const TemporaryDirectory directory;
  LineFilter filter({"loss", "error"});
  REQUIRE(filter.open(directory.path() + "/filtered_stdout.log") == "");
  bool matches = false;
  const auto take = [&](std::string_view text, bool begins = true, bool ends = true) {
    filter.take({text, begins, ends}, [] { return std::string("[3] "); }, matches, {});
  };
  take("loss 1\n");
  take("nothing\n");
  take("an error", true, false);
  take(" and its rest\n", false, true);
  take("nothing again\n");
  CHECK(text_of(directory.path() + "/filtered_stdout.log") == "[3] loss 1\n[3] an error and its rest\n");
}

TEST_CASE("without filter words no file is created") {
  const TemporaryDirectory directory;
  LineFilter filter({});
  CHECK(filter.open(directory.path() + "/filtered_stdout.log") == "");
  CHECK_FALSE(filter.active());
  CHECK_FALSE(std::ifstream(directory.path() + "/filtered_stdout.log"));
}

TEST_CASE("a filter file that cannot be created is named in the error") {
  LineFilter filter({"x"});
  CHECK_THAT(filter.open("/no/such/folder/f.log"), Catch::Contains("/no/such/folder/f.log"));
}
