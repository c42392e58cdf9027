#include "wire/state_file.h"

#include <boost/crc.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ddp::wire {
namespace {

std::uint64_t area_at(int area) {
  return static_cast<std::uint64_t>(area) * kStateAreaBytes;
}

std::uint64_t entry_at(int area, int place) {
  return area_at(area) + kStateEntriesAt + static_cast<std::uint64_t>(place) * kStateEntryBytes;
}

std::uint64_t data_at(int area, int place) {
  return area_at(area) + (static_cast<std::uint64_t>(place) + 1) * kStateRegionBytes;
}

std::uint32_t check_of(const StateEntry& entry) {
  boost::crc_32_type crc;
  crc.process_bytes(&entry, offsetof(StateEntry, check));
  return crc.checksum();
}

// `move` is pread() or pwrite() at a position.
template <typename Byte, typename Move>
bool move_all(std::span<Byte> data, std::uint64_t at, const Move& move) {
  while (!data.empty()) {
    const ssize_t done = move(data.data(), data.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data = data.subspan(static_cast<std::size_t>(done));
    at += static_cast<std::uint64_t>(done);
  }
  return true;
}

template <typename Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

bool set_lock(int file, std::uint64_t at, short type, int command) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(at);
  lock.l_len = 1;
  int result = 0;
  do {
    result = ::fcntl(file, command, &lock);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

bool is_valid(const StateEntry& entry) {
  return entry.kind > StateKind::none && entry.kind <= StateKind::whole && entry.check == check_of(entry) &&
         entry.step >= 0 && entry.world > 0 && entry.rank >= 0 && entry.rank < entry.world && entry.attempt >= 0 &&
         entry.bytes <= kStateRegionBytes;
}

StateEntry checked(StateEntry entry) {
  entry.check = check_of(entry);
  return entry;
}

bool read_at(int descriptor, std::uint64_t at, std::span<std::byte> data) {
  return move_all(data, at, [descriptor](auto... arguments) { return ::pread(descriptor, arguments...); });
}

bool write_at(int descriptor, std::uint64_t at, std::span<const std::byte> data) {
  return move_all(data, at, [descriptor](auto... arguments) { return ::pwrite(descriptor, arguments...); });
}

std::uint64_t claim_of_key(std::uint64_t key) {
  return kStateRequestAt + 1 + key % kStateClaims;
}

std::uint64_t claim_of_place(int area, int place) {
  return kStateRequestAt + 1 + kStateClaims + static_cast<std::uint64_t>(area * kStatePlaces + place);
}

std::optional<StateEntry> StateFile::entry(int area, int place) const {
  StateEntry entry{};
  const bool is_read = read_at(descriptor_, entry_at(area, place), std::as_writable_bytes(std::span(&entry, 1)));
  return is_read && is_valid(entry) ? std::optional(entry) : std::nullopt;
}

std::vector<StateFile::Found> StateFile::entries(int areas, int first, int count) const {
  std::vector<Found> found;
  for (int area = 0; area < areas; ++area) {
    for (int place = first; place < first + count; ++place) {
      if (const auto one = entry(area, place)) found.push_back({*one, area, place});
    }
  }
  std::ranges::stable_sort(found, {}, [](const Found& one) { return std::pair(one.entry.attempt, one.entry.step); });
  return found;
}

bool StateFile::clear_entry(int area, int place) const {
  return write_at(descriptor_, entry_at(area, place), bytes_of(StateEntry{}));
}

bool StateFile::set_entry(int area, int place, StateEntry entry) const {
  return write_at(descriptor_, entry_at(area, place), bytes_of(checked(entry)));
}

void StateFile::drop(int area, int place) const {
  clear_entry(area, place);
  ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(data_at(area, place)),
              static_cast<off_t>(kStateRegionBytes));
}

int StateFile::oldest(int area, int first, int count) const {
  int found = first;
  std::pair<std::int32_t, std::int64_t> least{};
  for (int place = first; place < first + count; ++place) {
    const auto other = entry(area, place);
    if (!other) return place;
    const std::pair age(other->attempt, other->step);
    if (place == first || age < least) {
      least = age;
      found = place;
    }
  }
  return found;
}

EntryData StateFile::data(int area, int place) const {
  return {descriptor_, data_at(area, place)};
}

bool StateFile::read(int area, int place, std::uint64_t at, std::span<std::byte> data) const {
  return read_at(descriptor_, data_at(area, place) + at, data);
}

bool StateFile::write(int area, int place, std::uint64_t at, std::span<const std::byte> data) const {
  return at + data.size() <= kStateRegionBytes && write_at(descriptor_, data_at(area, place) + at, data);
}

StateHead StateFile::head(int area) const {
  StateHead head{};
  return read_at(descriptor_, area_at(area), std::as_writable_bytes(std::span(&head, 1))) ? head : StateHead{};
}

void StateFile::set_attempt(int area, std::int32_t StateHead::*which, int attempt) const {
  const StateHead head{};
  const auto at = reinterpret_cast<const std::byte*>(&(head.*which)) - reinterpret_cast<const std::byte*>(&head);
  write_at(descriptor_, area_at(area) + static_cast<std::uint64_t>(at), bytes_of(std::int32_t{attempt + 1}));
}

void StateFile::set_room(int area, std::uint64_t bytes) const {
  write_at(descriptor_, area_at(area) + offsetof(StateHead, room), bytes_of(bytes));
}

void StateFile::set_image_time(int area, std::int32_t milliseconds) const {
  write_at(descriptor_, area_at(area) + offsetof(StateHead, image_time), bytes_of(milliseconds));
}

void StateFile::set_restored(int area, int attempt, std::int64_t step) const {
  write_at(descriptor_, area_at(area) + offsetof(StateHead, restored_step), bytes_of(step));
  set_attempt(area, &StateHead::restored, attempt);
}

void StateFile::hold_request() const {
  set_lock(descriptor_, kStateRequestAt, F_WRLCK, F_SETLK);
}

void StateFile::give_up_request() const {
  set_lock(descriptor_, kStateRequestAt, F_UNLCK, F_SETLK);
}

void StateFile::wait_for_request() const {
  set_lock(descriptor_, kStateRequestAt, F_RDLCK, F_SETLKW);
}

bool StateFile::try_claim(std::uint64_t at) const {
  return set_lock(descriptor_, at, F_WRLCK, F_SETLK);
}

void StateFile::give_up_claim(std::uint64_t at) const {
  set_lock(descriptor_, at, F_UNLCK, F_SETLK);
}

}  // namespace ddp::wire
