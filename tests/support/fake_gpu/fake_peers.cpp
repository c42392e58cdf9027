// Implements access between devices: the driver's functions, and the faults of broken machines (FAKE_GPU_PEERS).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_gpu/fake_gpu.h"
#include "support/fake_gpu/ptx_module.h"

using namespace fake_gpu;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Peers {
  std::mutex mutex;
  std::set<std::pair<int, int>> enabled;                                   // device, peer
  std::map<std::uintptr_t, std::unique_ptr<std::vector<std::byte>>> mirrors;  // by the block that they hide
};
Peers& peers() {
  static auto* all = new Peers;
  return *all;
}

std::string_view fault() {
  const char* text = std::getenv("FAKE_GPU_PEERS");
  return text == nullptr ? "" : text;
}

bool is_enabled(int device, int peer) {
  const std::lock_guard lock(peers().mutex);
  return peers().enabled.contains({device, peer});
}

int device_of_context(void* context) { return static_cast<int>(reinterpret_cast<std::size_t>(context)) - 1; }

}  // namespace

namespace fake_gpu {

std::vector<DeviceBlock> reachable_blocks(int device) {
  std::vector<DeviceBlock> blocks = device_blocks(device);
  for (int peer = 0; peer < device_count(); ++peer) {
    if (peer == device || !is_enabled(device, peer)) continue;
    for (DeviceBlock block : device_blocks(peer)) {
      block.is_of_peer = true;
      blocks.push_back(block);
    }
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const DeviceBlock& one, const DeviceBlock& other) { return one.begin < other.begin; });
  return blocks;
}

std::byte* through_window(const DeviceBlock& block, std::uintptr_t address) {
  constexpr std::size_t kFlags = 64;  // a smaller block holds flags
  thread_local std::byte nowhere[16] = {};
  auto* const place = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  static const std::string_view kind = fault();
  if (kind == "mirror") {
    const std::lock_guard lock(peers().mutex);
    auto& mirror = peers().mirrors[block.begin];
    if (!mirror) mirror = std::make_unique<std::vector<std::byte>>(block.end - block.begin);
    return mirror->data() + (address - block.begin);
  }
  if (kind == "wrong_word" && (address - block.begin) / 8 % 1000 == 7) return nowhere;
  if (kind == "lost_flag" && block.end - block.begin <= kFlags) return nowhere;
  while (kind == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
  if (kind == "slow" && address % 4096 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  return place;
}

}  // namespace fake_gpu

EXPORT int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && fault() != "none" ? 1 : 0;
  return kCudaSuccess;
}
EXPORT int cuCtxEnablePeerAccess(void* peer_context, unsigned flags) {
  if (const int error = context_error(); error != kCudaSuccess) return error;
  if (flags != 0) return kInvalidValue;
  const std::lock_guard lock(peers().mutex);
  peers().enabled.insert({current_device(), device_of_context(peer_context)});
  return kCudaSuccess;
}
EXPORT int cuMemcpyPeerAsync(unsigned long long to, void*, unsigned long long from, void*, std::size_t bytes,
                             void* stream) {
  if (const int error = stream_error(stream); error != kCudaSuccess) return error;
  if (device_of(reinterpret_cast<void*>(to)) < 0 || device_of(reinterpret_cast<void*>(from)) < 0) return kInvalidValue;
  stream_of(stream).push([=] {
    if (fault() == "lost_copy") return;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  });
  return kCudaSuccess;
}
// Counts what was pushed: a stream is ready when an action that was pushed behind its work has run.
EXPORT int cuStreamQuery(void* stream) {
  if (const int error = stream_error(stream); error != kCudaSuccess) return error;
  static auto* marks = new std::map<void*, std::shared_ptr<std::atomic<bool>>>;
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  auto& mark = (*marks)[stream];
  if (!mark) {
    mark = std::make_shared<std::atomic<bool>>(false);
    stream_of(stream).push([done = mark] { *done = true; });
  }
  if (!*mark) return kNotReady;
  mark.reset();
  return kCudaSuccess;
}
