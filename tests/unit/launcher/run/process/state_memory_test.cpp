#include "launcher/run/process/state_memory.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "support/catch.h"

using namespace ddp::launcher;
using ddp::wire::KeptState;
using ddp::wire::StateEntry;
using ddp::wire::StateKind;

namespace {

off_t entry_at(int area, int place) {
  return static_cast<off_t>(static_cast<std::uint64_t>(area) * ddp::wire::kStateAreaBytes + ddp::wire::kStateEntriesAt +
                            static_cast<std::uint64_t>(place) * ddp::wire::kStateEntryBytes);
}

off_t data_at(int area, int place) {
  return static_cast<off_t>(static_cast<std::uint64_t>(area) * ddp::wire::kStateAreaBytes +
                            (static_cast<std::uint64_t>(place) + 1) * ddp::wire::kStateRegionBytes);
}

// Writes an entry with data as a worker does.
void write(const StateMemory& memory, int area, int place, std::int64_t step, const std::string& data,
           StateKind kind = StateKind::final) {
  const ddp::wire::StateFile file(memory.descriptor());
  REQUIRE(file.write(area, place, 0, std::as_bytes(std::span(data))));
  REQUIRE(file.set_entry(area, place, {step, data.size(), 7, kind, 0, area, 2, 0, 0}));
}

void write_head(const StateMemory& memory, int area, const ddp::wire::StateHead& head) {
  const auto at = static_cast<off_t>(static_cast<std::uint64_t>(area) * ddp::wire::kStateAreaBytes);
  REQUIRE(::pwrite(memory.descriptor(), &head, sizeof head, at) == ssize_t{sizeof head});
}

std::string read(const StateMemory& memory, int area, int place, std::size_t size) {
  std::string data(size, '\0');
  REQUIRE(::pread(memory.descriptor(), data.data(), size, data_at(area, place)) == static_cast<ssize_t>(size));
  return data;
}

// Returns whether another process gets the lock that programs wait for.
bool is_asked(const StateMemory& memory) {
  const pid_t child = ::fork();
  if (child == 0) {
    struct flock lock {};
    lock.l_type = F_RDLCK;
    lock.l_start = static_cast<off_t>(ddp::wire::kStateRequestAt);
    lock.l_len = 1;
    ::_exit(::fcntl(memory.descriptor(), F_SETLK, &lock) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("a launcher without state memory keeps no state") {
  StateMemory none;
  CHECK(none.descriptor() == -1);
  none.begin({});
  none.ask();
  CHECK(none.kept().empty());
  CHECK(none.have_answered(std::array{0, 1}, 0));
}

TEST_CASE("valid entries are found and broken ones are not") {
  const StateMemory memory(2);
  CHECK(memory.kept().empty());
  write(memory, 0, 1, 4, "four");
  write(memory, 1, 10, 5, "a whole state", StateKind::whole);
  const auto kept = memory.kept();
  REQUIRE(kept.size() == 2);
  CHECK(kept[0] == KeptState{4, 4, 7, StateKind::final, 0, 0, 2, 0, 1});
  CHECK(kept[1] == KeptState{5, 13, 7, StateKind::whole, 0, 1, 2, 1, 10});
  // Each byte that differs makes an entry invalid.
  for (std::size_t i = 0; i < sizeof(StateEntry); ++i) {
    char byte = 0;
    REQUIRE(::pread(memory.descriptor(), &byte, 1, entry_at(0, 1) + static_cast<off_t>(i)) == 1);
    byte = static_cast<char>(byte ^ 0x10);
    REQUIRE(::pwrite(memory.descriptor(), &byte, 1, entry_at(0, 1) + static_cast<off_t>(i)) == 1);
    CHECK(memory.kept().size() == 1);
    byte = static_cast<char>(byte ^ 0x10);
    REQUIRE(::pwrite(memory.descriptor(), &byte, 1, entry_at(0, 1) + static_cast<off_t>(i)) == 1);
  }
  CHECK(memory.kept().size() == 2);
}

TEST_CASE("programs are asked once per attempt for their state") {
  StateMemory memory(1);
  memory.begin({});
  CHECK_FALSE(is_asked(memory));
  memory.ask();
  CHECK(is_asked(memory));
  memory.begin({});
  CHECK_FALSE(is_asked(memory));
}

TEST_CASE("only workers that keep their state must answer") {
  const StateMemory memory(3);
  const std::array all{0, 1, 2};
  CHECK(memory.have_answered(all, 4));
  write_head(memory, 1, {.room = 0, .keeps = 5, .answered = 0, .restored = 5, .image_time = 0, .restored_step = 9});
  CHECK_FALSE(memory.have_answered(all, 4));
  CHECK(memory.have_answered(std::array{0, 2}, 4));
  CHECK(memory.have_answered(all, 5));
  write_head(memory, 1, {.room = 0, .keeps = 5, .answered = 5, .restored = 5, .image_time = 0, .restored_step = 9});
  CHECK(memory.have_answered(all, 4));
}

TEST_CASE("the state with which an attempt begins is copied before it is overwritten") {
  StateMemory memory(1);
  write(memory, 0, 3, 5, "five");
  ddp::wire::RestorePlan plan{0, 5, 0, "", {{{0, 3}, {}, {}}}, {}};
  memory.begin(plan);
  memory.begin(plan);  // an attempt that fails at once is followed by one that begins with the same
  CHECK(memory.kept().size() == 2);
  CHECK(read(memory, 0, 8, 4) == "five");
  write(memory, 0, 5, 6, "six");
  plan = {0, 6, 0, "", {{{0, 5}, {}, {}}}, {}};
  memory.begin(plan);
  CHECK(read(memory, 0, 8, 4) == "five");
  CHECK(read(memory, 0, 9, 3) == "six");
  write(memory, 0, 7, 7, "seven");
  plan = {0, 7, 0, "", {{{0, 7}, {}, {}}}, {}};
  memory.begin(plan);
  CHECK(read(memory, 0, 8, 5) == "seven");
}

TEST_CASE("an attempt begins without entries newer than its state") {
  StateMemory memory(2);
  write(memory, 0, 10, 16, "an image", StateKind::whole);
  write(memory, 0, 8, 16, "its own");
  write(memory, 1, 8, 16, "its own");
  write(memory, 0, 11, 32, "an image that only one rank has", StateKind::whole);
  write(memory, 0, 9, 32, "its own");
  write(memory, 1, 3, 33, "a later step");
  memory.begin({0, 16, 17, "", {{{0, 8}, {}, {0, 10}}, {{1, 8}, {}, {0, 10}}}, {}});
  for (const KeptState& state : memory.kept()) CHECK(state.step == 16);
  CHECK(memory.kept().size() == 3);
  // So the next image is written beside the one that is complete.
  CHECK(ddp::wire::StateFile(memory.descriptor()).oldest(0, 10, 2) == 11);
  memory.begin({});
  CHECK(memory.kept().empty());
}

TEST_CASE("the two newest whole states of a key are kept") {
  StateMemory memory(2);
  write(memory, 1, 11, 5, "whole", StateKind::whole);
  write(memory, 0, 10, 6, "whole", StateKind::whole);
  write(memory, 1, 10, 7, "whole", StateKind::whole);
  memory.begin({0, 7, 0, "", {{{}, {}, {1, 10}}}, {}});
  const auto kept = memory.kept();
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].step == 6);
  CHECK(kept[1].step == 7);
}
