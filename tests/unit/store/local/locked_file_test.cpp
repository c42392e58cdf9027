#include "store/local/locked_file.h"

#include <filesystem>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/temporary_directory.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using ddp::store::FileLock;
using ddp::store::LockedFile;
using Guard = LockedFile::Guard;

TEST_CASE("a file can be locked by several readers or one writer") {
  const TemporaryDirectory directory;
  LockedFile one(directory.path() + "/f");
  LockedFile two(directory.path() + "/f");
  const auto at_once = std::chrono::steady_clock::time_point{};
  {
    const Guard first(one, FileLock::shared, soon());
    { const Guard second(two, FileLock::shared, at_once); }
    expect_error(ddp::ErrorKind::timeout, {"/f", "lock"},
                 [&] { const Guard second(two, FileLock::exclusive, at_once); });
  }
  const Guard second(two, FileLock::exclusive, at_once);
  expect_error(ddp::ErrorKind::timeout, {"/f", "lock"}, [&] { const Guard first(one, FileLock::shared, at_once); });
}

TEST_CASE("writing at an offset truncates the file after the written bytes") {
  const TemporaryDirectory directory;
  LockedFile file(directory.path() + "/f");
  file.write_end(0, "abcdef");
  CHECK(file.size() == 6);
  CHECK(file.read(0, 100) == "abcdef");
  file.write_end(2, "X");
  CHECK(file.read(0, 100) == "abX");
  CHECK(file.read(1, 1) == "b");
  CHECK(file.read(9, 1).empty());
}

TEST_CASE("a file recreated at the same path is recognised as a different one") {
  const TemporaryDirectory directory;
  LockedFile file(directory.path() + "/f");
  CHECK(file.is_in_place());
  file.remove();
  CHECK_FALSE(file.is_in_place());
  LockedFile other(directory.path() + "/f");
  CHECK_FALSE(file.is_in_place());
  CHECK(other.is_in_place());
  CHECK((std::filesystem::status(other.path()).permissions() == std::filesystem::perms(0600)));
}
