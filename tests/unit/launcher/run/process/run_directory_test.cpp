#include "launcher/run/process/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
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

TEST_CASE("a run directory that cannot be created is an error that names TMPDIR") {
  const TmpdirIs tmpdir("/no/such/place");
  RunDirectory directory({}, "run");
  const auto failure = directory.make();
  REQUIRE(failure);
  CHECK(failure->message.find("TMPDIR") != std::string::npos);
}

TEST_CASE("each rank can write its error file, and all files are removed at the end") {
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

TEST_CASE("a log directory has the name of the run and is kept") {
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

TEST_CASE("a run that needs no files creates no directory") {
  RunDirectory directory({RunFiles::Kind::none, ""}, "run");
  CHECK_FALSE(directory.make());
  CHECK_FALSE(directory.begin_attempt(0, 2));
  CHECK(directory.file(0, "error.json").empty());
}

TEST_CASE("the reason why the parent of a log directory cannot be created is reported") {
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

TEST_CASE("sockets have a short path in a private directory wherever the files are") {
  namespace fs = std::filesystem;
  const TemporaryDirectory parent;
  const std::string deep = parent.path() + "/" + std::string(99, 'x');
  fs::create_directory(deep);
  const std::vector<std::string> roots = {deep, "/no/such/place", parent.path()};
  const TmpdirIs tmpdir(deep);
  for (const RunFiles& files : {RunFiles{}, RunFiles{RunFiles::Kind::kept, deep}}) {
    RunDirectory directory(files, "run", roots);
    REQUIRE_FALSE(directory.make());
    REQUIRE_FALSE(directory.begin_attempt(3, 1));
    CHECK_FALSE(directory.socket_failure());
    const fs::path file = directory.torch_file(0);
    CHECK(file.filename() == "attempt_3_0_torch");
    CHECK(file.parent_path().parent_path() == parent.path());
    CHECK(fs::status(file.parent_path()).permissions() == fs::perms::owner_all);
    CHECK_FALSE(check_for_sockets(file.parent_path(), 20));
    CHECK(fs::is_empty(file.parent_path()));
  }
  CHECK(std::distance(fs::directory_iterator(parent.path()), {}) == 1);
}

TEST_CASE("sockets are among the temporary files if their path is short") {
  const TemporaryDirectory parent;
  const TmpdirIs tmpdir(parent.path());
  RunDirectory directory({}, "run", roots_of_sockets());
  REQUIRE_FALSE(directory.make());
  CHECK(directory.torch_file(0).starts_with(directory.path() + "/"));
  CHECK(RunDirectory({}, "run").torch_file(0).empty());
}

TEST_CASE("a run continues without sockets if no directory can hold them, and knows the reasons") {
  const TemporaryDirectory parent;
  const std::string deep = parent.path() + "/" + std::string(99, 'x');
  std::filesystem::create_directory(deep);
  RunDirectory directory({RunFiles::Kind::kept, parent.path() + "/logs"}, "run", {deep, "/no/such/place"});
  REQUIRE_FALSE(directory.make());
  CHECK(directory.torch_file(0).empty());
  REQUIRE(directory.socket_failure());
  CHECK_THAT(directory.socket_failure()->message,
             Catch::Contains("is too long for a socket; cannot make the directory") &&
                 Catch::Contains("No such file or directory"));
  CHECK(std::filesystem::is_empty(deep));
}
