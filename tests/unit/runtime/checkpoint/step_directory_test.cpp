#include "runtime/checkpoint/step_directory.h"

#include <ddp/error.h>

#include <sys/stat.h>
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
using Steps = std::vector<std::int64_t>;

namespace {

void stage(const std::string& directory, std::int64_t step, const std::string& file, const std::string& text) {
  make_directory(directory + "/" + staging_name(step));
  write_text_file(directory + "/" + staging_name(step) + "/" + file, text);
}

bool exists(const std::string& path) {
  return std::filesystem::exists(path);
}

}  // namespace

TEST_CASE("step directories have names that sort by step and can be parsed") {
  CHECK(step_name(1200) == "step-000000001200");
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{7}, std::int64_t{999999999999}, INT64_MAX}) {
    CHECK(parse_step_name(step_name(step)) == step);
  }
  for (const char* name : {"step-", "step-12", "step-00000000120x", "step--00000000012", "step-0000000000001", "model",
                           ".writing-step-000000000001"}) {
    INFO(name);
    CHECK_FALSE(parse_step_name(name));
  }
}

TEST_CASE("a step directory gets its name when it is committed with exactly the named files") {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  stage(path, 3, "a", "one");
  stage(path, 3, "stray", "of an earlier run");
  CHECK(list_steps(path).empty());
  commit_step(path, 3, {"a"});
  CHECK(list_steps(path) == Steps{3});
  CHECK(read_text_file(path + "/" + step_name(3) + "/a", 1000) == "one");
  CHECK_FALSE(exists(path + "/" + step_name(3) + "/stray"));
  CHECK_FALSE(exists(path + "/" + staging_name(3)));
}

TEST_CASE("an existing step is replaced") {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  for (const char* text : {"one", "two"}) {
    stage(path, 3, "a", text);
    commit_step(path, 3, {"a"});
    CHECK(read_text_file(path + "/" + step_name(3) + "/a", 1000) == text);
    CHECK_FALSE(exists(path + "/" + staging_name(3)));
  }
}

TEST_CASE("steps are listed from the newest and removed as a whole") {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  for (const std::int64_t step : {5, 100, 20}) {
    stage(path, step, "a", "x");
    commit_step(path, step, {"a"});
  }
  stage(path, 200, "a", "half");
  stage(path, 300, "a", "half");
  write_text_file(path + "/notes.txt", "mine");
  CHECK(list_steps(path) == Steps{100, 20, 5});
  remove_step(path, 20);
  CHECK(list_steps(path) == Steps{100, 5});
  discard_staged(path, 7);  // nothing is staged
  stage(path, 7, "a", "half");
  discard_staged(path, 7);
  CHECK_FALSE(exists(path + "/" + staging_name(7)));
  remove_leftovers(path);
  CHECK_FALSE(exists(path + "/" + staging_name(200)));
  CHECK_FALSE(exists(path + "/" + staging_name(300)));
  CHECK(exists(path + "/notes.txt"));
}

TEST_CASE("a file system error is reported with the path and the reason") {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  write_text_file(path + "/file", "x");
  expect_error(ErrorKind::unavailable, {"make directory", "/file", "Not a directory"},
               [&] { make_directory(path + "/file"); });
  expect_error(ErrorKind::unavailable, {"make directory", "No such file"}, [&] { make_directory(path + "/a/b"); });
  expect_error(ErrorKind::unavailable, {"list", "No such file"}, [&] { list_steps(path + "/a"); });
  expect_error(ErrorKind::unavailable, {"read", "No such file"}, [&] { read_text_file(path + "/a", 1000); });
  expect_error(ErrorKind::unavailable, {"/dev/full", "No space left"}, [&] { write_text_file("/dev/full", "x"); });
}

TEST_CASE("a file that is too large or not regular is not read") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/text";
  write_text_file(path, std::string(1000, 'x'));
  CHECK(read_text_file(path, 1000).size() == 1000);
  expect_error(ErrorKind::corrupt, {"more than 999 bytes"}, [&] { read_text_file(path, 999); });
  expect_error(ErrorKind::corrupt, {"not a regular file"}, [&] { read_text_file(directory.path(), 1000); });
  REQUIRE(::mkfifo((directory.path() + "/fifo").c_str(), 0600) == 0);
  expect_error(ErrorKind::corrupt, {"not a regular file"}, [&] { read_text_file(directory.path() + "/fifo", 1000); });
}

TEST_CASE("a directory has one lock at a time whose owner is named, and the lock file is removed") {
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

TEST_CASE("the lock of a killed process does not block") {
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

TEST_CASE("a removed lock file can be taken again, and its former owner does not remove the new one") {
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

TEST_CASE("a process waits for a lock while its owner exits") {
  const TemporaryDirectory directory;
  auto first = std::make_unique<DirectoryLock>(directory.path(), 0ms);
  std::thread waiting([&] { const DirectoryLock second(directory.path(), 1min); });
  first.reset();
  waiting.join();
}
