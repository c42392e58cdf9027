#include "wire/state_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "support/catch.h"

using namespace ddp::wire;

namespace {

class Memory {
 public:
  Memory() : descriptor_(::memfd_create("test", MFD_CLOEXEC)) {}
  ~Memory() { ::close(descriptor_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  StateFile file() const { return StateFile(descriptor_); }
  std::uint64_t allocated() const {
    struct stat status {};
    ::fstat(descriptor_, &status);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  }

 private:
  int descriptor_;
};

StateEntry entry_of(int attempt, std::int64_t step) {
  return {step, 0, 1, StateKind::final, attempt, 0, 1, 0, 0};
}

}  // namespace

TEST_CASE("an entry is unchanged until it is cleared") {
  const Memory memory;
  const StateFile file = memory.file();
  CHECK_FALSE(file.entry(1, 2));
  REQUIRE(file.set_entry(1, 2, entry_of(3, 4)));
  REQUIRE(file.entry(1, 2));
  CHECK(file.entry(1, 2)->attempt == 3);
  CHECK(file.entry(1, 2)->step == 4);
  CHECK_FALSE(file.entry(0, 2));
  CHECK_FALSE(file.entry(1, 1));
  REQUIRE(file.clear_entry(1, 2));
  CHECK_FALSE(file.entry(1, 2));
}

TEST_CASE("an impossible entry is ignored although its checksum is correct") {
  const Memory memory;
  const StateFile file = memory.file();
  const auto is_accepted = [&](const StateEntry& entry) {
    REQUIRE(file.set_entry(0, 0, entry));
    return file.entry(0, 0).has_value();
  };
  CHECK(is_accepted({4, 8, 1, StateKind::whole, 0, 1, 2, 0, 0}));
  CHECK_FALSE(is_accepted({4, 8, 1, StateKind::none, 0, 1, 2, 0, 0}));
  CHECK_FALSE(is_accepted({4, 8, 1, StateKind{5}, 0, 1, 2, 0, 0}));
  CHECK_FALSE(is_accepted({-1, 8, 1, StateKind::whole, 0, 1, 2, 0, 0}));
  CHECK_FALSE(is_accepted({4, 8, 1, StateKind::whole, -1, 1, 2, 0, 0}));
  CHECK_FALSE(is_accepted({4, 8, 1, StateKind::whole, 0, 2, 2, 0, 0}));
  CHECK_FALSE(is_accepted({4, kStateRegionBytes + 1, 1, StateKind::whole, 0, 1, 2, 0, 0}));
}

TEST_CASE("the oldest place is an empty one or the one with the lowest attempt and step") {
  const Memory memory;
  const StateFile file = memory.file();
  file.set_entry(0, 10, entry_of(0, 9));
  CHECK(file.oldest(0, 10, 2) == 11);
  file.set_entry(0, 11, entry_of(1, 3));
  CHECK(file.oldest(0, 10, 2) == 10);
  file.set_entry(0, 10, entry_of(1, 4));
  CHECK(file.oldest(0, 10, 2) == 11);
}

TEST_CASE("StateFile::entries() returns the entries of the given places of all areas, the oldest first") {
  const Memory memory;
  const StateFile file = memory.file();
  CHECK(file.entries(3, 10, 2).empty());
  file.set_entry(0, 10, entry_of(1, 4));
  file.set_entry(0, 9, entry_of(0, 1));
  file.set_entry(2, 11, entry_of(0, 9));
  file.set_entry(1, 10, entry_of(1, 3));
  std::vector<std::pair<int, int>> found;
  for (const auto& one : file.entries(3, 10, 2)) found.emplace_back(one.area, one.place);
  CHECK(found == std::vector<std::pair<int, int>>{{2, 11}, {1, 10}, {0, 10}});
}

TEST_CASE("dropped data uses no memory") {
  const Memory memory;
  const StateFile file = memory.file();
  const std::vector<std::byte> data(1 << 20, std::byte{1});
  for (const int place : {10, 11}) {
    REQUIRE(file.write(0, place, 0, data));
    REQUIRE(file.set_entry(0, place, entry_of(0, 1)));
  }
  const std::uint64_t before = memory.allocated();
  file.drop(0, 10);
  CHECK_FALSE(file.entry(0, 10));
  CHECK(file.entry(0, 11));
  CHECK(memory.allocated() == before - data.size());
}

TEST_CASE("the lock ranges of keys and places do not overlap") {
  CHECK(claim_of_key(1) == claim_of_key(1 + kStateClaims));
  CHECK(claim_of_key(0) == kStateRequestAt + 1);
  CHECK(claim_of_place(0, 0) == claim_of_key(kStateClaims - 1) + 1);
  CHECK(claim_of_place(1, 0) == claim_of_place(0, kStatePlaces - 1) + 1);
}

TEST_CASE("the data of two places are separate") {
  const Memory memory;
  const StateFile file = memory.file();
  const std::vector<std::byte> one(100, std::byte{1});
  const std::vector<std::byte> two(100, std::byte{2});
  REQUIRE(file.write(0, 0, 0, one));
  REQUIRE(file.write(0, 1, 0, two));
  REQUIRE(file.write(0, 0, 50, std::span(two).first(1)));
  std::vector<std::byte> read(100);
  REQUIRE(file.read(0, 0, 0, read));
  CHECK(read[49] == std::byte{1});
  CHECK(read[50] == std::byte{2});
  CHECK(read[51] == std::byte{1});
  CHECK_FALSE(file.read(3, 1, 0, read));  // nothing was written there
  CHECK_FALSE(file.write(0, 0, kStateRegionBytes - 1, two));
}

TEST_CASE("the header is read as it was written") {
  const Memory memory;
  const StateFile file = memory.file();
  CHECK(file.head(2).keeps == 0);
  file.set_attempt(2, &StateHead::keeps, 4);
  file.set_attempt(2, &StateHead::answered, 5);
  file.set_restored(2, 6, 1234);
  file.set_room(2, 99);
  CHECK(file.head(2).room == 99);
  CHECK(file.head(2).keeps == 5);
  CHECK(file.head(2).answered == 6);
  CHECK(file.head(2).restored == 7);
  CHECK(file.head(2).restored_step == 1234);
  CHECK(file.head(1).keeps == 0);
}

TEST_CASE("an invalid descriptor reads and writes nothing") {
  const StateFile file(-1);
  std::array<std::byte, 1> byte{};
  CHECK_FALSE(file.entry(0, 0));
  CHECK_FALSE(file.set_entry(0, 0, entry_of(0, 0)));
  CHECK_FALSE(file.read(0, 0, 0, byte));
  CHECK(file.head(0).keeps == 0);
  CHECK_FALSE(file.try_claim(1));
}
