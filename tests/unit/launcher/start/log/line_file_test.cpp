#include "launcher/start/log/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/stderr_to.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using ddp::base::UniqueFd;

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

void no_warning(const std::string& line) {
  FAIL(line);
}

LineFile log_at(const std::string& path, const std::function<void(const std::string&)>& warn = no_warning) {
  auto log = LineFile::open("--event-log", path, warn);
  if (!log) FAIL(log.error().message);
  return std::move(log).value();
}

}  // namespace

TEST_CASE("a line file is opened for appending") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/log";
  put(path, "earlier\n");
  LineFile log = log_at(path);
  LineFile other = log_at(path);
  CHECK_FALSE(log.begin("first"));
  other.write("of another");
  log.write("second");
  log.write("");
  CHECK(contents(path) == "earlier\nfirst\nof another\nsecond\n");
}

TEST_CASE("a line file without a path stays closed") {
  LineFile log = log_at("");
  CHECK_FALSE(log.is_open());
  CHECK_FALSE(log.begin("first"));
  log.write("second");
}

TEST_CASE("a line file that cannot be opened reports the reason") {
  const TemporaryDirectory directory;
  const auto failure_of = [](const std::string& path) {
    const auto log = LineFile::open("--event-log", path, no_warning);
    REQUIRE_FALSE(log.ok());
    return log.error().message;
  };
  const std::string missing = directory.path() + "/no/log";
  CHECK(failure_of(missing) == "cannot write --event-log=" + missing + ": No such file or directory.");
  CHECK(failure_of(directory.path()) == "cannot write --event-log=" + directory.path() + ": Is a directory.");
  const std::string fifo = directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(failure_of(fifo) == "cannot write --event-log=" + fifo + ": no process reads it. Start its reader first.");
}

TEST_CASE("a full disk refuses the first line, and ends a running log with one warning") {
  LineFile refused = log_at("/dev/full");
  const auto failure = refused.begin("first");
  REQUIRE(failure);
  CHECK(failure->message == "cannot write --event-log=/dev/full: No space left on device.");
  std::vector<std::string> warnings;
  LineFile log = log_at("/dev/full", [&](const std::string& line) { warnings.push_back(line); });
  log.write("one");
  log.write("two");
  CHECK(warnings == std::vector<std::string>{
                        "cannot write --event-log=/dev/full: No space left on device. The job continues without it."});
  CHECK_FALSE(log.is_open());
}

TEST_CASE("the warning about a full disk may go to the same log") {
  std::vector<std::string> warnings;
  LineFile* self = nullptr;
  LineFile log = log_at("/dev/full", [&](const std::string& line) {
    warnings.push_back(line);
    if (warnings.size() < 10) self->write(line);
  });
  self = &log;
  log.write("{}");
  CHECK(warnings.size() == 1);
}

TEST_CASE("a reader of a log FIFO that stops reading or leaves does not block the job") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& line) { warnings.push_back(line); };
  UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  LineFile slow = log_at(path, warn);
  slow.write(std::string(1 << 20, 'x'));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.at(0), Catch::Contains("its reader is too slow"));
  LineFile left = log_at(path, warn);
  reader.reset();
  const auto old_pipe = std::signal(SIGPIPE, SIG_IGN);
  left.write("x");
  std::signal(SIGPIPE, old_pipe);
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings.at(1), Catch::Contains("Broken pipe"));
}

TEST_CASE("events on standard output do not overwrite other output") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/err";
  {
    const StderrTo redirection(path);
    LineFile log = log_at("/dev/stderr");
    StderrTo::say("a\n");
    log.write("b");
    StderrTo::say("c\n");
    log.write("d");
  }
  CHECK(contents(path) == "a\nb\nc\nd\n");
}
