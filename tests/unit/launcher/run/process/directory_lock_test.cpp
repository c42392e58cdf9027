#include "launcher/run/process/directory_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/temporary_directory.h"

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
