#include "launcher/process/run_directory.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
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
  RunDirectory directory({}, "run");
  const auto failure = directory.make();
  REQUIRE(failure);
  CHECK(failure->message.find("TMPDIR") != std::string::npos);
}

TEST_CASE("each rank can write its error file and all is removed in the end") {
  const TemporaryDirectory parent;
  const TmpdirIs tmpdir(parent.path());
  {
    RunDirectory directory({}, "run");
    CHECK(std::filesystem::is_empty(parent.path()));
    REQUIRE_FALSE(directory.make());
    REQUIRE_FALSE(directory.begin_attempt(2, 3));
    for (int rank = 0; rank < 3; ++rank) {
      std::ofstream file(directory.file(rank, "error.json"));
      CHECK(file.is_open());
      file << "{}";
    }
    CHECK(directory.file(2, "error.json").ends_with("/attempt_2_2_error.json"));
  }
  CHECK(std::filesystem::is_empty(parent.path()));
}

TEST_CASE("what a killed launcher left is removed by the next one and what a living one has is not") {
  const TemporaryDirectory parent;
  const TmpdirIs tmpdir(parent.path());
  namespace fs = std::filesystem;
  // This is the state after SIGKILL: the directory exists, and no process holds its lock.
  const std::string dead = parent.path() + "/ddp-run-0123456789ab";
  fs::create_directories(dead);
  std::ofstream(dead + "/attempt_0_0_error.json") << "{}";
  // A launcher did not make these: other names, a file, a link.
  for (const char* name : {"/ddp-run-of-a-user", "/ddp-run-0123456789abc", "/ddplaunch-0123456789ab", "/other"}) {
    fs::create_directories(parent.path() + name);
  }
  std::ofstream(parent.path() + "/ddp-run-00000000000f") << "";
  fs::create_directory_symlink(parent.path() + "/other", parent.path() + "/ddp-run-00000000000d");

  RunDirectory living({}, "run");
  RunDirectory next({}, "run");
  for (RunDirectory* directory : {&living, &next}) {
    REQUIRE_FALSE(directory->make());
    REQUIRE_FALSE(directory->begin_attempt(0, 1));
  }
  CHECK_FALSE(fs::exists(dead));
  for (const char* name : {"/ddp-run-of-a-user", "/ddp-run-0123456789abc", "/ddplaunch-0123456789ab", "/other",
                           "/ddp-run-00000000000f", "/ddp-run-00000000000d"}) {
    CHECK(fs::exists(parent.path() + name));
  }
  CHECK(std::ofstream(living.file(0, "error.json")).is_open());
  CHECK(std::ofstream(next.file(0, "error.json")).is_open());
}

TEST_CASE("launchers that start at the same time do not take each other's directories for leftovers") {
  const TemporaryDirectory parent;
  const TmpdirIs tmpdir(parent.path());
  std::atomic<int> lost = 0;
  std::vector<std::thread> launchers;
  for (int i = 0; i < 8; ++i) {
    launchers.emplace_back([&lost] {
      for (int run = 0; run < 500; ++run) {
        RunDirectory directory({}, "run");
        if (directory.make() || directory.begin_attempt(0, 1)) ++lost;
      }
    });
  }
  for (std::thread& launcher : launchers) launcher.join();
  CHECK(lost == 0);
}

TEST_CASE("a log directory has the run's name and stays") {
  const TemporaryDirectory parent;
  const std::string logs = parent.path() + "/a/b";
  std::string file;
  {
    RunDirectory directory({RunFiles::Kind::kept, logs}, "job/7");
    REQUIRE_FALSE(directory.make());
    REQUIRE_FALSE(directory.begin_attempt(1, 1));
    file = directory.file(0, "stdout.log");
    CHECK(std::ofstream(file).is_open());
  }
  CHECK(file.find(logs + "/job_7_") == 0);
  CHECK(file.ends_with("/attempt_1/0/stdout.log"));
  CHECK(std::filesystem::exists(file));
  RunDirectory impossible({RunFiles::Kind::kept, file + "/x"}, "run");
  REQUIRE(impossible.make());
  CHECK(impossible.make()->message.find("--log-dir") != std::string::npos);
}

TEST_CASE("without files there is no directory") {
  RunDirectory directory({RunFiles::Kind::none, ""}, "run");
  CHECK_FALSE(directory.make());
  CHECK_FALSE(directory.begin_attempt(0, 2));
  CHECK(directory.file(0, "error.json").empty());
}

TEST_CASE("why the parent of a log directory cannot be made is told") {
  // This holds for root as well: sysfs lets no program make a directory.
  const std::string place = "/sys/no";
  if (!std::filesystem::is_directory("/sys/class")) return;
  RunFiles files;
  files.kind = RunFiles::Kind::kept;
  files.log_dir = place + "/such";
  RunDirectory directory(files, "run");
  const auto failure = directory.make();
  REQUIRE(failure);
  CHECK_THAT(failure->message,
             Catch::StartsWith("cannot make the directory " + place) && !Catch::Contains("No such file or directory"));
}
