#include "launcher/run/process/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
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

TEST_CASE("a private directory is created in the first suitable root and can be removed") {
  const TemporaryDirectory first;
  const TemporaryDirectory second;
  PrivateDirectory directory({"/no/such/place", first.path(), second.path()});
  CHECK(directory.path().empty());
  REQUIRE_FALSE(directory.make([&](const std::string& path) -> std::optional<ddp::base::Failure> {
    return path.starts_with(first.path()) ? std::optional(ddp::base::Failure{"unsuitable"}) : std::nullopt;
  }));
  CHECK(directory.path().starts_with(second.path() + "/"));
  CHECK(std::filesystem::is_empty(first.path()));
  std::ofstream(directory.path() + "/file") << "x";
  directory.remove();
  CHECK(std::filesystem::is_empty(second.path()));
}

TEST_CASE("directories of killed launchers are removed, and those of running launchers are kept") {
  const TemporaryDirectory parent;
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

  PrivateDirectory living({parent.path()});
  PrivateDirectory next({parent.path()});
  for (PrivateDirectory* directory : {&living, &next}) REQUIRE_FALSE(directory->make());
  CHECK_FALSE(fs::exists(dead));
  for (const char* name : {"/ddp-run-of-a-user", "/ddp-run-0123456789abc", "/ddplaunch-0123456789ab", "/other",
                           "/ddp-run-00000000000f", "/ddp-run-00000000000d"}) {
    CHECK(fs::exists(parent.path() + name));
  }
  CHECK(fs::is_directory(living.path()));
  CHECK(fs::is_directory(next.path()));
}

TEST_CASE("launchers that start at the same time keep each other's directories") {
  const TemporaryDirectory parent;
  std::atomic<int> lost = 0;
  std::vector<std::thread> launchers;
  for (int i = 0; i < 8; ++i) {
    launchers.emplace_back([&lost, path = parent.path()] {
      for (int run = 0; run < 500; ++run) {
        PrivateDirectory directory({path});
        if (directory.make() || !std::ofstream(directory.path() + "/file").is_open()) ++lost;
      }
    });
  }
  for (std::thread& launcher : launchers) launcher.join();
  CHECK(lost == 0);
}

using ddp::launcher::lock_directory;

TEST_CASE("a directory can be locked once until the lock is released") {
  const TemporaryDirectory directory;
  auto lock = lock_directory(directory.path());
  REQUIRE(lock);
  errno = 0;
  CHECK_FALSE(lock_directory(directory.path()));
  CHECK(errno == EWOULDBLOCK);
  lock.reset();
  CHECK(lock_directory(directory.path()));
}

TEST_CASE("a path that is not a directory cannot be locked") {
  const TemporaryDirectory directory;
  CHECK_FALSE(lock_directory(directory.path() + "/missing"));
  CHECK(errno == ENOENT);
  std::filesystem::create_directory_symlink(directory.path(), directory.path() + "/link");
  CHECK_FALSE(lock_directory(directory.path() + "/link"));
}

TEST_CASE("removing unlocked directories never removes a locked one of the same name") {
  const TemporaryDirectory parent;
  const std::string path = parent.path() + "/d";
  std::atomic<bool> is_over = false;
  std::vector<std::thread> removers;
  for (int i = 0; i < 3; ++i) {
    removers.emplace_back([&] {
      while (!is_over) {
        if (const auto lock = lock_directory(path)) ::rmdir(path.c_str());
      }
    });
  }
  int lost = 0;
  for (int round = 0; round < 200; ++round) {
    ::mkdir(path.c_str(), 0700);
    const auto lock = lock_directory(path);
    for (int poll = 0; lock && poll < 5; ++poll) {
      lost += std::filesystem::exists(path) ? 0 : 1;
      std::this_thread::yield();
    }
    if (lock) ::rmdir(path.c_str());
  }
  is_over = true;
  for (std::thread& remover : removers) remover.join();
  CHECK(lost == 0);
}
