#include "runtime/backend/cpu/near_memory.h"

#include <ddp/error.h>

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/host/contract.h"

namespace ddp {
namespace {

// Fetched at once of each rank: what is fetched stays in the cache until it is reduced.
constexpr std::size_t kFetch = std::size_t{256} << 10;

}  // namespace

NearMemory::NearMemory(std::shared_ptr<HostGroup> host, Way best)
    : host_(std::move(host)), one_process_(host_->one_process()), best_(best) {}

NearMemory::Way NearMemory::way(const Call& call, const std::function<bool(std::size_t index)>& givers) const {
  bool direct = best_ == Way::direct;
  bool copied = best_ != Way::none;
  for (std::size_t index = 0; index < host_->size(); ++index) {
    copied = copied && host_->area(index).reads_all != 0;
    if (!givers(index)) continue;
    const CallRecord& record = shown_call(*host_, index, call);
    direct = direct && record.address != 0 && (one_process_ || record.segment != 0);
    copied = copied && record.address != 0;
  }
  if (direct) return Way::direct;
  return copied ? Way::copied : Way::none;
}

std::byte* NearMemory::view(const Call& call, std::size_t index, std::size_t offset, std::size_t bytes) const {
  const CallRecord& record = shown_call(*host_, index, call);
  if (index == host_->own() || one_process_) {
    return reinterpret_cast<std::byte*>(record.address) + offset;  // NOLINT(performance-no-int-to-ptr)
  }
  return host_->segments().at(index, {record.segment, record.offset + offset}, bytes);
}

void NearMemory::copy(const Call& call, std::size_t index, std::size_t offset, void* to, std::size_t bytes,
                      Way way) const {
  if (bytes == 0) return;
  if (way == Way::direct || index == host_->own()) {
    std::memcpy(to, view(call, index, offset, bytes), bytes);
  } else {
    copy_from(index, shown_call(*host_, index, call).address + offset, to, bytes);
  }
}

void NearMemory::copy_from(std::size_t index, std::uint64_t address, void* to, std::size_t bytes) const {
  auto* place = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const iovec local{place, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};  // NOLINT(performance-no-int-to-ptr)
    const ssize_t got = ::process_vm_readv(host_->pid(index), &local, 1, &remote, 1, 0);
    if (got <= 0) {
      throw Error(ErrorKind::peer_lost,
                  "rank " + std::to_string(host_->rank_of(index)) + " cannot be read any more (" +
                      std::strerror(errno) + "): it has ended, or its buffer is not its memory",
                  host_->rank_of(index));
    }
    place += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

void NearMemory::reduce(const Call& call, const Buffer& part, std::size_t offset, std::span<void* const> destinations,
                        Way way) {
  if (part.count == 0) return;
  if (way == Way::copied) return reduce_copied(call, part, offset, destinations);
  sources_.clear();
  for (std::size_t index = 0; index < host_->size(); ++index) {
    sources_.push_back({view(call, index, offset, part.bytes()), shown_call(*host_, index, call).factor});
  }
  ddp::reduce(part.type, call.op, sources_, destinations, part.count);
}

void NearMemory::reduce_copied(const Call& call, const Buffer& part, std::size_t offset,
                               std::span<void* const> destinations) {
  fetched_.resize(host_->size() * kFetch);
  for (std::size_t done = 0; done < part.bytes(); done += kFetch) {
    const std::size_t bytes = std::min(kFetch, part.bytes() - done);
    sources_.clear();
    for (std::size_t index = 0; index < host_->size(); ++index) {
      const std::byte* source = fetched_.data() + index * kFetch;
      if (index == host_->own()) {
        source = view(call, index, offset + done, bytes);
      } else {
        copy(call, index, offset + done, fetched_.data() + index * kFetch, bytes, Way::copied);
      }
      sources_.push_back({source, shown_call(*host_, index, call).factor});
    }
    targets_.clear();
    for (void* destination : destinations) targets_.push_back(static_cast<std::byte*>(destination) + done);
    ddp::reduce(part.type, call.op, sources_, targets_, bytes / size_of(part.type));
  }
}

}  // namespace ddp
