#include "launcher/run/job/save_notices.h"

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Holds the reports until one notice was found or `most` had passed.
struct Notices {
  std::vector<std::string> found;
  std::vector<std::string> failed;
};

Notices notices_of(const std::string& file, const std::string& command, std::chrono::milliseconds most) {
  net::EventLoop loop;
  Notices seen;
  const SaveNotices notices(loop, file, command,
                            {[&](const std::string& what) {
                               seen.found.push_back(what);
                               loop.stop();
                             },
                             [&](const std::string& why) { seen.failed.push_back(why); }});
  if (!seen.found.empty()) return seen;
  const auto over = loop.at(std::chrono::steady_clock::now() + most, [&] { loop.stop(); });
  loop.run();
  return seen;
}

}  // namespace

TEST_CASE("a notice file counts if it exists shortly after the start or appears later") {
  const TemporaryDirectory folder;
  const std::string file = folder.path() + "/notice";
  CHECK(notices_of(file, "", 0ms).found.empty());
  CHECK(notices_of(file, "sleep 0.1; touch " + file + "; exit 1", 10s).found == std::vector{file + " exists"});
  CHECK(notices_of(file, "", 0ms).found.empty());
  CHECK(notices_of(file, "", 10s).found == std::vector{file + " exists"});
}

TEST_CASE("a command that exits with 0 is a notice, and other exit codes are not") {
  CHECK(notices_of("", "true", 10s).found == std::vector<std::string>{"'true' exited with code 0"});
  const Notices seen = notices_of("", "echo much; echo more >&2; exit 22", 1500ms);
  CHECK(seen.found.empty());
  CHECK(seen.failed.empty());
}

TEST_CASE("a notice command that does not exist is reported") {
  const Notices seen = notices_of("", "/there/is/no/such/program", 1500ms);
  CHECK(seen.found.empty());
  CHECK(seen.failed ==
        std::vector<std::string>{"--save-command: '/there/is/no/such/program' cannot be run (exit code 127)"});
}

TEST_CASE("a notice command is repeated until it gives a notice") {
  const TemporaryDirectory folder;
  const std::string count = folder.path() + "/count";
  // The second run of the command finds the file.
  const Notices seen = notices_of("", "test -e " + count + " || { touch " + count + "; exit 1; }", 20s);
  CHECK(seen.found.size() == 1);
}
