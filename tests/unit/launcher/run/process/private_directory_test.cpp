#include "launcher/run/process/private_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

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
