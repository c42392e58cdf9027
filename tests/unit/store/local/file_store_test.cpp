#include <ddp/store.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "store/local/file_log.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/random_seed.h"
#include "support/temporary_directory.h"
#include "wire/limits.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using ddp::ErrorKind;
using ddp::make_file_store;
using Keys = std::vector<std::string>;

namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Starts a process that calls `action` and exits with 0 if it threw nothing. The parent must have only one thread.
template <typename Action>
pid_t start(Action&& action) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  int code = 1;
  try {
    action();
    code = 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  ::_exit(code);
}

int ending_of(pid_t pid) {
  int status = -1;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Runs a process that calls an endless function until it is killed.
class Killed {
 public:
  explicit Killed(std::function<void()> action) : action_(std::move(action)) { pid_ = start(action_); }
  ~Killed() { dies(); }
  Killed(const Killed&) = delete;
  Killed& operator=(const Killed&) = delete;

  void dies() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    CHECK(ending_of(std::exchange(pid_, 0)) == SIGKILL);
  }
  void again() {
    dies();
    pid_ = start(action_);
  }

 private:
  std::function<void()> action_;
  pid_t pid_ = 0;
};

struct File {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/store";
};

}  // namespace

TEST_CASE("processes count together in one file") {
  const File file;
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(start([&] {
      const auto store = make_file_store(file.path, kPatience);
      for (int step = 0; step < 50; ++step) store->add("n", 1);
    }));
  }
  for (const pid_t child : children) CHECK(ending_of(child) == 0);
  CHECK(make_file_store(file.path, kPatience)->add("n", 0) == 300);
}

TEST_CASE("threads count together through one object and through several") {
  const File file;
  const auto shared = make_file_store(file.path, kPatience);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, store = i % 2 == 0 ? shared : make_file_store(file.path, kPatience)] {
      for (int step = 0; step < 50; ++step) store->add("n", 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shared->add("n", 0) == 300);
}

TEST_CASE("writers that are killed at any moment do not disturb others") {
  const File file;
  std::mt19937 random(random_seed());
  const auto store = make_file_store(file.path, kPatience);
  // A write that was confirmed has happened. A write in progress may have happened or not.
  const std::string large(300'000, 'x');
  const std::string tally_path = file.directory.path() + "/tally";
  const ddp::base::UniqueFd tally(::open(tally_path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
  const auto write_for_ever = [&] {
    const auto own = make_file_store(file.path, kPatience);
    while (true) {
      own->add("n", 1);
      [[maybe_unused]] const ssize_t tallied = ::write(tally.get(), "x", 1);
      own->set("large", large);
    }
  };
  constexpr int kKills = 25;
  Killed writers[] = {Killed(write_for_ever), Killed(write_for_ever)};
  std::int64_t seen = 0;
  for (int i = 0; i < kKills; ++i) {
    // The survivors continue, or this loop never ends.
    for (const std::int64_t before = seen; seen < before + 2;) {
      seen = store->add("n", 0);
      if (store->check(Keys{"large"})) REQUIRE((store->get("large") == large));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(0, 3000)(random)));
    writers[i % 2].again();
  }
  for (Killed& writer : writers) writer.dies();
  const auto tallied = static_cast<std::int64_t>(contents(tally_path).size());
  const std::int64_t counted = make_file_store(file.path, kPatience)->add("n", 0);
  CHECK(counted >= tallied);
  CHECK(counted <= tallied + kKills + 2);
  CHECK(store->add("n", 1) == counted + 1);
}

TEST_CASE("a truncated record is ignored, and the next writer overwrites it") {
  const File file;
  {
    const auto store = make_file_store(file.path, kPatience);
    store->set("a", "1");
  }
  const std::string before = contents(file.path);
  const std::string record = encode(ddp::store::TableChange{ddp::store::TableChange::Kind::set, "b", "torn"});
  for (std::size_t length = 1; length < record.size(); ++length) {
    INFO(length << " of " << record.size() << " bytes");
    write_file(file.path, before);
    const auto survivor = make_file_store(file.path, kPatience);
    { std::ofstream(file.path, std::ios::binary | std::ios::app) << record.substr(0, length); }
    CHECK_FALSE(survivor->check(Keys{"b"}));
    CHECK(survivor->get("a") == "1");
    const auto late = make_file_store(file.path, kPatience);  // the constructor records its arrival
    CHECK_FALSE(late->check(Keys{"b"}));
    late->set("c", "2");
    CHECK(survivor->get("c") == "2");
    survivor->set("b", "whole");
    CHECK(late->get("b") == "whole");
  }
}

TEST_CASE("a file whose creator was killed in its header is created anew") {
  const std::string head(ddp::store::kFileLogHead);
  for (std::size_t length = 0; length <= head.size(); ++length) {
    const File file;
    write_file(file.path, head.substr(0, length));
    make_file_store(file.path, kPatience)->set("k", "v");
    CHECK(make_file_store(file.path, kPatience)->get("k") == "v");
  }
}

TEST_CASE("a file that is not a store is rejected and left unchanged") {
  const File file;
  const std::string text =
      GENERATE(as<std::string>(), "x", "a file of somebody else, of some length", "ddplaunch store2...");
  write_file(file.path, text);
  expect_error(ErrorKind::corrupt, {file.path, "is not a store"}, [&] { make_file_store(file.path, kPatience); });
  CHECK(contents(file.path) == text);
}

TEST_CASE("a damaged record is an error with its position, and the file is not truncated") {
  const File file;
  make_file_store(file.path, kPatience)->set("key", "value");
  std::string bytes = contents(file.path);
  bytes[bytes.find("value")] = 'V';
  write_file(file.path, bytes);
  expect_error(ErrorKind::corrupt, {file.path, "damaged at byte 29"}, [&] { make_file_store(file.path, kPatience); });
  CHECK(contents(file.path) == bytes);
}

TEST_CASE("a full disk is an error that names the file and leaves the log intact") {
  const File file;
  const auto store = make_file_store(file.path, kPatience);
  store->set("a", "1");
  const std::string before = contents(file.path);
  // A limit of this process simulates a full disk. Only a part of the record fits.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit tight{before.size() + 10'000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  expect_error(ErrorKind::unavailable, {"cannot write", file.path, "too large"},
               [&] { store->set("b", std::string(50'000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  CHECK((contents(file.path) == before));
  CHECK_FALSE(store->check(Keys{"b"}));
  store->set("b", "2");
  CHECK(make_file_store(file.path, kPatience)->multi_get(Keys{"a", "b"}) == Keys{"1", "2"});
}

TEST_CASE("a file that cannot be opened is named") {
  expect_error(ErrorKind::unavailable, {"'/nowhere/store'", "No such file"},
               [] { make_file_store("/nowhere/store", kPatience); });
}

TEST_CASE("a lock that is never released ends the call in time") {
  const File file;
  const auto store = make_file_store(file.path, 20ms);
  const ddp::base::UniqueFd other(::open(file.path.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  expect_error(ErrorKind::timeout, {file.path, "lock"}, [&] { store->set("k", "v"); });
  expect_error(ErrorKind::timeout, {file.path, "lock"}, [&] { store->check(Keys{"k"}); });
  REQUIRE(::flock(other.get(), LOCK_UN) == 0);
  store->set("k", "v");
}

TEST_CASE("the last user removes the file") {
  const File file;
  auto first = make_file_store(file.path, kPatience, 2);
  first->set("k", "v");
  first.reset();
  auto second = make_file_store(file.path, kPatience, 2);
  CHECK(second->get("k") == "v");
  auto again = make_file_store(file.path, kPatience, 2);
  second.reset();
  CHECK(::access(file.path.c_str(), F_OK) == 0);
  again.reset();
  CHECK(::access(file.path.c_str(), F_OK) != 0);
}

TEST_CASE("a file of a user that crashed is kept") {
  const File file;
  CHECK(ending_of(start([&] {
          make_file_store(file.path, kPatience, 2).get()->set("k", "v");
          const auto store = make_file_store(file.path, kPatience, 2);
          ::raise(SIGKILL);
        })) == SIGKILL);
  make_file_store(file.path, kPatience, 2);
  make_file_store(file.path, kPatience, 2);
  CHECK(make_file_store(file.path, kPatience)->get("k") == "v");
}

TEST_CASE("a store whose file is removed reports it") {
  const File file;
  const auto store = make_file_store(file.path, kPatience);
  ::unlink(file.path.c_str());
  expect_error(ErrorKind::unavailable, {file.path, "was removed"}, [&] { store->set("k", "v"); });
}

TEST_CASE("a file store accepts the requests of other stores and no more") {
  const File file;
  const auto store = make_file_store(file.path, kPatience);
  const std::string largest(ddp::limits::kStoreValueBytes, 'v');
  store->set("k", largest);
  CHECK((make_file_store(file.path, kPatience)->get("k") == largest));
  expect_error(ErrorKind::invalid_argument, {"value of 'k'", "8388609"}, [&] { store->append("k", "v"); });
  expect_error(ErrorKind::invalid_argument, {"8193", "8192"},
               [&] { store->set(std::string(ddp::limits::kStoreKeyBytes + 1, 'k'), ""); });
  CHECK((store->get("k") == largest));
}
