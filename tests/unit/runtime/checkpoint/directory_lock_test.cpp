#include "runtime/checkpoint/directory_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using namespace std::chrono_literals;

TEST_CASE("a directory has one lock at a time, whose owner is named, and no file afterwards") {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  auto first = std::make_unique<DirectoryLock>(path, 0ms);
  for (int i = 0; i < 2; ++i) {
    expect_error(ErrorKind::unavailable, {path, "another job", "pid " + std::to_string(::getpid()), "remove"},
                 [&] { const DirectoryLock second(path, 0ms); });
  }
  first.reset();
  CHECK(std::filesystem::is_empty(path));
  const DirectoryLock third(path, 0ms);
}

TEST_CASE("the lock of a process that was killed is no obstacle") {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const DirectoryLock lock(path, 0ms);
      ::_exit(0);  // without the destructor
    } catch (...) {
      ::_exit(1);
    }
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(std::filesystem::exists(path + "/.lock"));
  const DirectoryLock lock(path, 0ms);
}

TEST_CASE("a lock that the user removed is taken again, and its owner does not remove the new one") {
  const TemporaryDirectory directory;
  auto first = std::make_unique<DirectoryLock>(directory.path(), 0ms);
  std::filesystem::remove(directory.path() + "/.lock");
  const DirectoryLock second(directory.path(), 0ms);
  first.reset();
  CHECK(std::filesystem::exists(directory.path() + "/.lock"));
}

TEST_CASE("a directory that cannot be written is an error with the reason") {
  expect_error(ErrorKind::unavailable, {".lock", "No such file"},
               [] { const DirectoryLock lock("/nonexistent", 0ms); });
}

TEST_CASE("a lock is waited for while its owner ends") {
  const TemporaryDirectory directory;
  auto first = std::make_unique<DirectoryLock>(directory.path(), 0ms);
  std::thread waiting([&] { const DirectoryLock second(directory.path(), 1min); });
  first.reset();
  waiting.join();
}
