#include "launcher/run/process/private_directory.h"

#include <atomic>
#include <filesystem>
#include <fstream>
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
