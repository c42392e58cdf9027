#include "torch_reader/ring_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "wire/call_names.h"
#include "wire/record_writer.h"

namespace ddp::torch_reader {
namespace {

// Holds the lock of the ring's file, which keeps out a worker that writes without atomic operations. It does not wait,
// because the worker may have been stopped while it held the lock.
class FileLock {
 public:
  explicit FileLock(int file) : file_(file), is_held_(set(F_WRLCK)) {}
  ~FileLock() {
    if (is_held_) set(F_UNLCK);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool is_held() const { return is_held_; }

 private:
  bool set(short type) const {
    struct flock whole {};
    whole.l_type = type;
    whole.l_whence = SEEK_SET;
    return ::fcntl(file_, F_SETLK, &whole) == 0;
  }

  const int file_;
  const bool is_held_;
};

bool is_wanted(wire::RecordMode mode, std::uint64_t number) {
  return mode == wire::RecordMode::all || (mode == wire::RecordMode::steps && wire::is_sampled(number));
}

// Returns the number of the operation, or one without a name. Some names of PyTorch begin with an underscore and have a
// suffix, such as _reduce_scatter_base.
std::uint8_t number_of(std::string_view operation) {
  std::size_t number = 0;
  std::size_t length = 0;
  const bool is_internal = operation.starts_with('_');
  if (is_internal) operation.remove_prefix(1);
  for (std::size_t i = 0; i < wire::kOperationNames.size(); ++i) {
    const std::string_view name = wire::kOperationNames[i];
    const bool is_it = is_internal ? operation.starts_with(name) && name.size() > length : operation == name;
    if (!is_it) continue;
    number = i;
    length = name.size();
  }
  return static_cast<std::uint8_t>(length > 0 ? number : wire::kOperationNames.size());
}

}  // namespace

RingWriter::RingWriter(const char* path) : file_(::open(path, O_RDWR | O_CLOEXEC)) {
  struct stat status {};
  const auto bytes = static_cast<off_t>(sizeof(wire::RecordRingLayout));
  if (!file_ || ::fstat(file_.get(), &status) != 0 || status.st_size < bytes) return;
  void* memory = ::mmap(nullptr, sizeof(wire::RecordRingLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) return;
  ring_.reset(static_cast<wire::RecordRingLayout*>(memory));
  if (ring_->magic != wire::kRingMagic || ring_->version != wire::kRingVersion) ring_.reset();
}

void RingWriter::Unmap::operator()(wire::RecordRingLayout* ring) const {
  ::munmap(ring, sizeof *ring);
}

void RingWriter::write(const wire::StatusPageLayout& page, int pid, std::span<const RecordedGroup> groups,
                       const Moment& now) {
  if (!ring_) return;
  std::int32_t writer = 0;
  if (!ring_->writer.compare_exchange_strong(writer, pid) && writer != pid) return;
  const FileLock lock(file_.get());
  if (!lock.is_held()) return;
  for (const RecordedGroup& group : groups) {
    const auto* const place = std::ranges::find(page.groups, group.identity, &wire::PageGroup::identity);
    const bool is_shown = place != page.groups.end();
    add(group, is_shown ? static_cast<std::uint8_t>(place - page.groups.begin()) : wire::kNoRingGroup, now);
  }
}

void RingWriter::add(const RecordedGroup& group, std::uint8_t place, const Moment& now) {
  Added& added = added_[group.identity];
  const wire::RecordMode mode = ring_->mode.load(wire::kRelaxed);
  for (const RecordedCall& call : group.calls) {
    if (call.sequence > group.finished || !is_wanted(mode, call.sequence)) continue;
    if (call.sequence <= added.latest && !added.missing.contains(call.sequence)) continue;
    if (call.finished_at == 0) {
      added.missing.insert(call.sequence);
      continue;
    }
    added.missing.erase(call.sequence);
    const std::uint64_t begin = on_monotonic(now, call.made_at);
    const std::uint8_t operation = number_of(call.operation);
    const bool has_own_name =
        operation < wire::kOperationNames.size() && call.operation == wire::kOperationNames[operation];
    wire::add_record(*ring_, {.kind = wire::RecordKind::collective,
                              .begin = begin,
                              .end = std::max(begin, on_monotonic(now, call.finished_at)),
                              .bytes = call.bytes,
                              .number = call.sequence,
                              .group = place,
                              .operation = operation,
                              .name = has_own_name ? std::string_view() : std::string_view(call.operation)});
  }
  if (group.calls.empty()) return;
  added.latest = std::max(added.latest, std::min(group.finished, group.calls.back().sequence));
  added.missing.erase(added.missing.begin(), added.missing.lower_bound(group.calls.front().sequence));
}

}  // namespace ddp::torch_reader
