#include "launcher/report/report_file.h"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/temporary_directory.h"

using namespace ddp::launcher;
using ddp::base::UniqueFd;
namespace fs = std::filesystem;

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

std::string why_not(const std::string& path, const std::string& text = "new") {
  const auto failure = write_report(path, text, "--summary=" + path);
  return failure ? failure->message : "";
}

std::string what_stands_against(const std::string& path) {
  const auto failure = check_report(path, "--summary=" + path);
  return failure ? failure->message : "";
}

std::ptrdiff_t entries(const std::string& directory) {
  return std::distance(fs::directory_iterator(directory), fs::directory_iterator());
}

void no_warning(const std::string& line) {
  FAIL(line);
}

EventLog log_at(const std::string& path, const std::function<void(const std::string&)>& warn = no_warning) {
  auto log = EventLog::open(path, warn);
  if (!log) FAIL(log.error().message);
  return std::move(log).value();
}

// Makes our standard error this file, for a while.
class StderrTo {
 public:
  explicit StderrTo(const std::string& path) : saved_(::dup(STDERR_FILENO)) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT, 0666));
    ::dup2(file.get(), STDERR_FILENO);
  }
  ~StderrTo() { ::dup2(saved_.get(), STDERR_FILENO); }
  StderrTo(const StderrTo&) = delete;
  StderrTo& operator=(const StderrTo&) = delete;
  static void say(const std::string& text) { REQUIRE(::write(STDERR_FILENO, text.data(), text.size()) > 0); }

 private:
  UniqueFd saved_;
};

}  // namespace

TEST_CASE("a report appears and replaces an older one as a whole") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/s.json";
  CHECK(what_stands_against(path).empty());
  CHECK(entries(directory.path()) == 0);
  CHECK(why_not(path, "one").empty());
  CHECK(contents(path) == "one");
  // Who has the old one open keeps it whole: it is replaced, not overwritten.
  std::ifstream reader(path);
  CHECK(what_stands_against(path).empty());
  CHECK(why_not(path, "two").empty());
  CHECK(std::string(std::istreambuf_iterator<char>(reader), {}) == "one");
  CHECK(contents(path) == "two");
  CHECK(entries(directory.path()) == 1);
}

TEST_CASE("a report keeps the permissions of the one it replaces and follows a link") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/s.json";
  put(path, "old");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("s.json", directory.path() + "/link");
  CHECK(why_not(directory.path() + "/link").empty());
  CHECK(fs::is_symlink(directory.path() + "/link"));
  CHECK(contents(path) == "new");
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a report's path may be relative and as long as a name can be") {
  const TemporaryDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  CHECK(why_not("s.json").empty());
  CHECK(why_not(std::string(255, 's')).empty());
  fs::current_path(before);
  CHECK(contents(directory.path() + "/s.json") == "new");
}

TEST_CASE("what cannot take a report is said beforehand and afterwards") {
  const TemporaryDirectory directory;
  const std::string missing = directory.path() + "/no/s.json";
  CHECK(what_stands_against(missing) == "cannot write --summary=" + missing + ": No such file or directory.");
  CHECK(why_not(missing) == what_stands_against(missing));
  CHECK(what_stands_against(directory.path()) == "cannot write --summary=" + directory.path() + ": Is a directory.");
  CHECK(why_not(directory.path()) == what_stands_against(directory.path()));
  CHECK(what_stands_against("/proc/s.json").starts_with("cannot write --summary=/proc/s.json: "));
  CHECK(entries(directory.path()) == 0);
}

TEST_CASE("a full device is told and nothing is left of the report") {
  CHECK(why_not("/dev/full") == "cannot write --summary=/dev/full: No space left on device.");
  CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("a report whose writing fails leaves the old one as it was") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/s.json";
  put(path, "old");
  fs::create_directory(directory.path() + "/in");
  fs::create_symlink(path, directory.path() + "/in/link");
  // The folder of the link does not matter, that of the file does.
  CHECK(why_not(directory.path() + "/in/link").empty());
  CHECK(contents(path) == "new");
  if (::geteuid() == 0) return;  // may write everywhere
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  CHECK_FALSE(what_stands_against(path).empty());
  CHECK_FALSE(why_not(path, "newer").empty());
  fs::permissions(directory.path(), fs::perms::owner_all);
  CHECK(contents(path) == "new");
}

TEST_CASE("a FIFO without a reader does not hold a report, and one with a reader gets it") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(what_stands_against(path).empty());  // a reader may still come
  CHECK(why_not(path) == "cannot write --summary=" + path + ": nobody reads it. Start its reader first.");
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  CHECK(why_not(path).empty());
  std::string got(10, '\0');
  CHECK(::read(reader.get(), got.data(), got.size()) == 3);
  CHECK(why_not(path, std::string(1 << 20, 'x')) == "cannot write --summary=" + path + ": its reader is too slow.");
  CHECK(fs::is_fifo(path));
}

TEST_CASE("our own output is written to where it stands and not replaced") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/err";
  for (const std::string& name : {std::string("/dev/stderr"), path}) {
    put(path, "");
    {
      const StderrTo redirection(path);
      StderrTo::say("before\n");
      CHECK(what_stands_against(name).empty());
      CHECK(why_not(name, "report\n").empty());
      StderrTo::say("after\n");
    }
    CHECK(contents(path) == "before\nreport\nafter\n");
  }
  CHECK(entries(directory.path()) == 1);
  CHECK(fs::is_symlink("/dev/stderr"));
}

TEST_CASE("an event log is appended to") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/log";
  put(path, "earlier\n");
  EventLog log = log_at(path);
  EventLog other = log_at(path);
  CHECK_FALSE(log.begin("first"));
  other.write("of another");
  log.write("second");
  log.write("");
  CHECK(contents(path) == "earlier\nfirst\nof another\nsecond\n");
  CHECK(log.is_same_file(path));
  CHECK_FALSE(log.is_same_file(directory.path() + "/no"));
  CHECK_FALSE(log.is_same_file("/dev/null"));
}

TEST_CASE("no path is no event log") {
  EventLog log = log_at("");
  CHECK_FALSE(log.is_open());
  CHECK_FALSE(log.begin("first"));
  log.write("second");
  CHECK_FALSE(log.is_same_file("/dev/null"));
}

TEST_CASE("an event log that cannot be opened says why") {
  const TemporaryDirectory directory;
  const auto failure_of = [](const std::string& path) {
    const auto log = EventLog::open(path, no_warning);
    REQUIRE_FALSE(log.ok());
    return log.error().message;
  };
  const std::string missing = directory.path() + "/no/log";
  CHECK(failure_of(missing) == "cannot write --event-log=" + missing + ": No such file or directory.");
  CHECK(failure_of(directory.path()) == "cannot write --event-log=" + directory.path() + ": Is a directory.");
  const std::string fifo = directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(failure_of(fifo) == "cannot write --event-log=" + fifo + ": nobody reads it. Start its reader first.");
}

TEST_CASE("a full device refuses the first line, and ends a log that has begun with one warning") {
  EventLog refused = log_at("/dev/full");
  const auto failure = refused.begin("first");
  REQUIRE(failure);
  CHECK(failure->message == "cannot write --event-log=/dev/full: No space left on device.");
  std::vector<std::string> warnings;
  EventLog log = log_at("/dev/full", [&](const std::string& line) { warnings.push_back(line); });
  log.write("one");
  log.write("two");
  CHECK(warnings == std::vector<std::string>{"cannot write --event-log=/dev/full: No space left on device. "
                                             "The job goes on without it."});
  CHECK_FALSE(log.is_open());
}

TEST_CASE("an event log's reader that stops reading, or leaves, does not hold the job") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& line) { warnings.push_back(line); };
  UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  EventLog slow = log_at(path, warn);
  slow.write(std::string(1 << 20, 'x'));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.at(0), Catch::Contains("its reader is too slow"));
  EventLog left = log_at(path, warn);
  reader.reset();
  const auto old_pipe = std::signal(SIGPIPE, SIG_IGN);
  left.write("x");
  std::signal(SIGPIPE, old_pipe);
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings.at(1), Catch::Contains("Broken pipe"));
}

TEST_CASE("events on our own output do not overwrite what is said there") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/err";
  {
    const StderrTo redirection(path);
    EventLog log = log_at("/dev/stderr");
    StderrTo::say("a\n");
    log.write("b");
    StderrTo::say("c\n");
    log.write("d");
    CHECK_FALSE(log.is_same_file(path));
  }
  CHECK(contents(path) == "a\nb\nc\nd\n");
}

TEST_CASE("symbolic links that go in a circle are not replaced") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/circle";
  std::filesystem::create_symlink("circle", path);
  const std::string expected = "cannot write --summary: Too many levels of symbolic links";
  for (const auto& failure : {check_report(path, "--summary"), write_report(path, "text", "--summary")}) {
    REQUIRE(failure);
    CHECK_THAT(failure->message, Catch::StartsWith(expected));
  }
  CHECK(std::filesystem::is_symlink(path));
}
