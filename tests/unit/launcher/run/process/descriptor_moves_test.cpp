#include "launcher/run/process/descriptor_moves.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <vector>

#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/random_seed.h"

using ddp::base::UniqueFd;
using ddp::launcher::DescriptorMove;
using ddp::launcher::move_descriptors;

namespace {

constexpr int kFirst = 210;  // the tests take descriptors from this number on

ino_t file_at(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

// Opens a file of its own at this number.
UniqueFd open_at(int number) {
  const UniqueFd file(::memfd_create("a file", MFD_CLOEXEC));
  REQUIRE(file);
  UniqueFd result(::fcntl(file.get(), F_DUPFD_CLOEXEC, number));
  REQUIRE(result.get() == number);
  return result;
}

// Makes the moves and checks what is at each target. Closes all files.
void check_moves(std::vector<DescriptorMove> moves) {
  std::vector<UniqueFd> files;
  std::vector<int> numbers;
  for (const DescriptorMove& move : moves) {
    for (const int number : {move.from, move.to}) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  for (const int number : numbers) {
    if (number >= 0) files.push_back(open_at(number));
  }
  std::vector<ino_t> expected;
  for (const DescriptorMove& move : moves) expected.push_back(file_at(move.from >= 0 ? move.from : move.to));
  const std::vector<DescriptorMove> asked = moves;
  REQUIRE(move_descriptors(moves) == 0);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    INFO(asked[i].from << " -> " << asked[i].to);
    CHECK(file_at(asked[i].to) == expected[i]);
    CHECK((::fcntl(asked[i].to, F_GETFD) == 0) == (asked[i].from >= 0));
    if (moves[i].from != asked[i].from) UniqueFd(moves[i].from).reset();
  }
}

}  // namespace

TEST_CASE("descriptors reach their target numbers even if other moved descriptors occupy them") {
  constexpr int a = kFirst;
  check_moves({});
  check_moves({{a, a}});
  check_moves({{a + 5, a}, {a + 6, a + 1}});
  check_moves({{a + 1, a}, {a, a + 1}});
  check_moves({{a + 1, a}, {a + 2, a + 1}, {a, a + 2}});
  check_moves({{a + 1, a}, {a + 1, a + 1}, {a + 1, a + 2}});
  check_moves({{a, a}, {a, a + 1}, {a + 1, a + 2}});
  check_moves({{-1, a}, {a, a + 1}});
  check_moves({{a + 1, a}, {-1, a + 1}});
}

TEST_CASE("descriptors reach their target numbers for random numbers") {
  const unsigned seed = ddp::test::random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::array<int, 5> targets{};
    for (int i = 0; i < 5; ++i) targets[static_cast<std::size_t>(i)] = kFirst + i;
    std::ranges::shuffle(targets, random);
    std::vector<DescriptorMove> moves;
    for (const int target : targets) {
      const int from = static_cast<int>(random() % 9);
      moves.push_back({from == 8 ? -1 : kFirst + from, target});
    }
    check_moves(moves);
  }
}

TEST_CASE("moving a descriptor that is not open is an error") {
  std::array moves = {DescriptorMove{kFirst, kFirst + 1}};
  CHECK(move_descriptors(moves) == EBADF);
}
