// StateFile reads and writes the state memory of a node, in the launcher and in the programs.
// docs/development/protocol.md, section 11, describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "wire/state_memory_layout.h"

namespace ddp::wire {

// Returns whether the check of an entry is correct.
bool is_valid(const StateEntry& entry);
// Returns the entry with its check.
StateEntry checked(StateEntry entry);

// These read and write all of `data` at a position of a file. They return false if that is not possible.
bool read_at(int descriptor, std::uint64_t at, std::span<std::byte> data);
bool write_at(int descriptor, std::uint64_t at, std::span<const std::byte> data);

// Says where the data of an entry are, in the memory or in a file.
struct EntryData {
  int descriptor = -1;
  std::uint64_t begin = 0;

  bool read(std::uint64_t at, std::span<std::byte> data) const { return read_at(descriptor, begin + at, data); }
};

// Returns what try_claim() takes: a number of a key, or of a place for a whole state.
std::uint64_t claim_of_key(std::uint64_t key);
std::uint64_t claim_of_place(int area, int place);

// The descriptor belongs to the caller. Programs write the memory, so the launcher trusts nothing in it. Any thread may
// use it.
class StateFile {
 public:
  explicit StateFile(int descriptor) : descriptor_(descriptor) {}

  // Returns the entry if its check is correct.
  std::optional<StateEntry> entry(int area, int place) const;
  // Returns all entries of these places of all areas, the oldest first.
  struct Found {
    StateEntry entry;
    int area = 0;
    int place = 0;
  };
  std::vector<Found> entries(int areas, int first, int count) const;
  // Removes the entry before its data are written. Afterwards set_entry() writes it, with its check. Both return false
  // if the memory cannot be written.
  bool clear_entry(int area, int place) const;
  bool set_entry(int area, int place, StateEntry entry) const;
  // Removes the entry and frees its memory.
  void drop(int area, int place) const;
  // Returns the one of these places whose entry is the oldest, or that has none.
  int oldest(int area, int first, int count) const;

  EntryData data(int area, int place) const;
  // These move the data of an entry. They return false if not all of it could be moved.
  bool read(int area, int place, std::uint64_t at, std::span<std::byte> data) const;
  bool write(int area, int place, std::uint64_t at, std::span<const std::byte> data) const;

  StateHead head(int area) const;
  // Writes one of the attempts of the head.
  void set_attempt(int area, std::int32_t StateHead::*which, int attempt) const;
  void set_room(int area, std::uint64_t bytes) const;
  void set_image_time(int area, std::int32_t milliseconds) const;
  void set_restored(int area, int attempt, std::int64_t step) const;

  // The launcher holds the request's lock until programs are to keep their state, and they wait for it.
  void hold_request() const;
  void give_up_request() const;
  void wait_for_request() const;
  // Programs hold the claim of their key while they copy a whole state, and that of the place which they write.
  // try_claim() returns false while another process holds it.
  bool try_claim(std::uint64_t at) const;
  void give_up_claim(std::uint64_t at) const;

 private:
  int descriptor_;
};

}  // namespace ddp::wire
