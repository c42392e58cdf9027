#include "launcher/start/log/log.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "support/catch.h"
#include "support/stderr_to.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all_levels(Log& log) {
  log.write({LogLevel::trace, LogSource::nodes, "a message"});
  log.write({LogLevel::debug, LogSource::store, "listens"});
  log.write({LogLevel::info, LogSource::job, "2 workers"});
  log.write({LogLevel::note, LogSource::job, "OMP_NUM_THREADS=1"});
  log.write({LogLevel::warning, LogSource::output, "a line is missing"});
  log.write({LogLevel::error, LogSource::job, "rank 1 failed"});
  log.write({LogLevel::error, LogSource::job, "  node a"});
  log.write_last({LogLevel::answer, LogSource::hangs, "state of the ranks:"});
}

// Returns what the console shows of all levels.
std::string shown(const LogSettings& settings) {
  const TemporaryDirectory directory;
  {
    const StderrTo redirection(directory.path() + "/err");
    Log log(settings);
    write_all_levels(log);
  }
  return contents(directory.path() + "/err");
}

}  // namespace

TEST_CASE("the console shows log lines from a level upwards with their severity") {
  const std::string errors = "ddplaunch: error: rank 1 failed\nddplaunch:   node a\nddplaunch: state of the ranks:\n";
  const std::string warnings = "ddplaunch: warning: a line is missing\n" + errors;
  const std::string notes = "ddplaunch: note: OMP_NUM_THREADS=1\n" + warnings;
  const std::string all = "ddplaunch: 2 workers\n" + notes;
  CHECK(shown({LogLevel::error, "", false}) == errors);
  CHECK(shown({LogLevel::warning, "", false}) == warnings);
  CHECK(shown({LogLevel::note, "", false}) == notes);
  CHECK(shown({}) == all);
  CHECK(shown({LogLevel::debug, "", false}) == "ddplaunch: debug: store: listens\n" + all);
  CHECK(shown({LogLevel::trace, "", false}) ==
        "ddplaunch: trace: nodes: a message\nddplaunch: debug: store: listens\n" + all);
}

TEST_CASE("only the severity of a log line is coloured") {
  const std::string text = shown({LogLevel::error, "", true});
  CHECK_THAT(text, Catch::StartsWith("ddplaunch: \033[31m\033[1merror: \033[m"
                                     "rank 1 failed\n"));
  CHECK_THAT(text, Catch::Contains("ddplaunch:   node a\n"));
}

TEST_CASE("the log file has all lines from debug upwards, whatever the console shows") {
  const TemporaryDirectory directory;
  const LogSettings settings{LogLevel::error, directory.path() + "/log", true};
  {
    const StderrTo redirection(directory.path() + "/err");
    Log log(settings);
    REQUIRE_FALSE(log.open_file());
    CHECK(log.wants(LogLevel::debug));
    CHECK_FALSE(log.wants(LogLevel::trace));
    write_all_levels(log);
  }
  const std::string text = contents(settings.file);
  CHECK(std::count(text.begin(), text.end(), '\n') == 7);
  CHECK_THAT(text, Catch::Matches("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}[+-][0-9]{2}:[0-9]{2} "
                                  "[^ ]+\\[[0-9]+\\] debug store: listens\n(.|\n)*"));
  for (const char* each : {"] info job: 2 workers\n", "] note job: OMP_NUM_THREADS=1\n",
                           "] answer hangs: state of the ranks:", "] warning output: a line is missing\n",
                           "] error job: rank 1 failed\n", "] error job:   node a\n"}) {
    CHECK_THAT(text, Catch::Contains(each));
  }
  CHECK_FALSE(Log({LogLevel::error, "", false}).wants(LogLevel::debug));
}

TEST_CASE("a log file that cannot be opened or written does not remove lines from the console") {
  const TemporaryDirectory directory;
  const auto failure = Log({LogLevel::info, directory.path(), false}).open_file();
  REQUIRE(failure);
  CHECK(failure->message == "cannot write --launcher-log=" + directory.path() + ": Is a directory.");
  {
    const StderrTo redirection(directory.path() + "/err");
    Log log({LogLevel::info, "/dev/full", false});
    REQUIRE_FALSE(log.open_file());
    log.write({LogLevel::info, LogSource::job, "one"});
    log.write({LogLevel::info, LogSource::job, "two"});
  }
  CHECK(contents(directory.path() + "/err") ==
        "ddplaunch: warning: cannot write --launcher-log=/dev/full: No space left on device. The job continues without "
        "it.\nddplaunch: one\nddplaunch: two\n");
}

TEST_CASE("control characters in a log line are escaped, and a long line is shortened") {
  const TemporaryDirectory directory;
  {
    const StderrTo redirection(directory.path() + "/err");
    Log log({});
    log.write({LogLevel::info, LogSource::job, "a\x1b[2Jb" + std::string(10'000, 'x')});
  }
  const std::string text = contents(directory.path() + "/err");
  CHECK_THAT(text, Catch::StartsWith("ddplaunch: a\\x1b[2Jb") && Catch::EndsWith("...\n"));
  CHECK(text.size() <= 4096);
}
