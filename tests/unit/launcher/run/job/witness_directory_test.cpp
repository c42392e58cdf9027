#include "launcher/run/job/witness_directory.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using Kind = ClaimAnswer::Kind;

namespace {

std::ptrdiff_t count_files(const std::string& directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

}  // namespace

TEST_CASE("the first claim is granted, and later claimants learn the first one") {
  const TemporaryDirectory directory;
  const std::string a = claim_text("a");
  const std::string b = claim_text("b");
  CHECK(claim_text("a") != a);
  CHECK(claim(directory.path(), "x", a).kind == Kind::granted);
  const ClaimAnswer refused = claim(directory.path(), "x", b);
  CHECK(refused.kind == Kind::taken);
  CHECK(refused.text == "a (pid " + std::to_string(::getpid()) + ")");
  CHECK(claim(directory.path(), "x", a).kind == Kind::granted);  // the answer was lost
  CHECK(claim(directory.path(), "y", b).kind == Kind::granted);
  CHECK(count_files(directory.path()) == 2);
}

TEST_CASE("exactly one of many threads that claim at once is granted") {
  const TemporaryDirectory directory;
  for (int round = 0; round < 20; ++round) {
    std::array<ClaimAnswer, 8> answers;
    std::barrier together(static_cast<std::ptrdiff_t>(answers.size()));
    std::vector<std::jthread> threads;
    for (ClaimAnswer& answer : answers) {
      threads.emplace_back([&] {
        const std::string text = claim_text("a");
        together.arrive_and_wait();
        answer = claim(directory.path(), "x" + std::to_string(round), text);
      });
    }
    threads.clear();
    CHECK(std::ranges::count(answers, Kind::granted, &ClaimAnswer::kind) == 1);
    CHECK(std::ranges::count(answers, Kind::taken, &ClaimAnswer::kind) == 7);
  }
  CHECK(count_files(directory.path()) == 20);
}

TEST_CASE("exactly one of many processes that claim at once is granted") {
  const TemporaryDirectory directory;
  std::array<int, 2> gate{};
  REQUIRE(::pipe(gate.data()) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(gate[1]);
      const std::string text = claim_text("a");
      char none = 0;
      [[maybe_unused]] const ssize_t at_end = ::read(gate[0], &none, 1);
      ::_exit(static_cast<int>(claim(directory.path(), "x", text).kind));
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    codes.push_back(WEXITSTATUS(status));
  }
  CHECK(std::ranges::count(codes, static_cast<int>(Kind::granted)) == 1);
  CHECK(std::ranges::count(codes, static_cast<int>(Kind::taken)) == 7);
}

TEST_CASE("a witness directory keeps one identity that differs from other directories") {
  const TemporaryDirectory one;
  const TemporaryDirectory other;
  const auto first = identify_witness(one.path());
  REQUIRE(first.ok());
  CHECK(identify_witness(one.path()).value() == first.value());
  CHECK(identify_witness(one.path() + "/.").value() == first.value());
  CHECK(identify_witness(other.path()).value() != first.value());
}

TEST_CASE("a directory in which claims are impossible is rejected with the reason") {
  const TemporaryDirectory directory;
  const auto none = identify_witness(directory.path() + "/none");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message.starts_with("--witness=" + directory.path() +
                                         "/none cannot be used: cannot create a file "
                                         "there: No such file or directory."));
  CHECK(none.error().message.ends_with("."));
  const ClaimAnswer answer = claim("/dev/null", "x", claim_text("a"));
  CHECK(answer.kind == Kind::failed);
  CHECK(answer.text == "cannot create a file there: Not a directory");
}

TEST_CASE("a claim that does not fit on the disk fails and leaves no file") {
  const TemporaryDirectory directory;
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const rlimit none{0, usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  const ClaimAnswer answer = claim(directory.path(), "x", claim_text("a"));
  ::setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, before);
  CHECK(answer.kind == Kind::failed);
  CHECK(answer.text == "cannot write a file there: File too large");
  CHECK(count_files(directory.path()) == 0);
}

TEST_CASE("an unreadable claim is not treated as granted") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/x").flush();
  CHECK(claim(directory.path(), "x", claim_text("a")).kind == Kind::failed);
  std::filesystem::create_symlink("none", directory.path() + "/y");
  CHECK(claim(directory.path(), "y", claim_text("a")).kind == Kind::failed);
}
