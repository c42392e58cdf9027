#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_gpu/fake_gpu.h"
#include "support/fake_gpu/ptx_module.h"

namespace fake_gpu {
namespace {

constexpr int kMostDevices = 64;

struct Device {
  std::mutex mutex;
  std::vector<std::unique_ptr<HardwareQueue>> queues;
  std::atomic<int> sticky = 0;
  std::unique_ptr<Stream> default_stream;
};

// These objects are never destroyed, because threads may be left behind at the end of the process.
struct World {
  std::array<Device, kMostDevices> devices;
  std::mutex memory_mutex;
  std::map<const char*, std::pair<std::size_t, int>> blocks;  // address → bytes, device
  std::map<const char*, std::size_t> released;                // address → bytes
  std::mutex hang_mutex;
  std::string hangs;
  Counts counts;
};
World& world() {
  static auto* all = new World;
  return *all;
}

thread_local int current = -1;

std::size_t number_of_queues() {
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return text == nullptr ? 8 : static_cast<std::size_t>(std::clamp(std::atoi(text), 1, 32));
}

HardwareQueue& next_queue(int device) {
  Device& here = world().devices.at(static_cast<std::size_t>(device));
  const std::lock_guard lock(here.mutex);
  if (here.queues.empty()) here.queues.resize(number_of_queues());
  const auto load = [](const std::unique_ptr<HardwareQueue>& queue) { return queue ? queue->streams.load() : 0; };
  auto& queue = *std::ranges::min_element(here.queues, {}, load);
  if (!queue) queue = std::make_unique<HardwareQueue>();
  ++queue->streams;
  return *queue;
}

void delay() {
  static const char* text = std::getenv("FAKE_GPU_DELAY");
  if (text == nullptr) return;
  thread_local std::minstd_rand random(static_cast<unsigned>(std::hash<std::thread::id>()(std::this_thread::get_id())));
  std::this_thread::sleep_for(
      std::chrono::microseconds(std::uniform_int_distribution<int>(0, std::atoi(text))(random)));
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}

// Returns the entry that holds the address, or end().
template <typename Map, typename Size>
auto entry_of(Map& map, const char* address, const Size& size) {
  auto found = map.upper_bound(address);
  if (found == map.begin()) return map.end();
  --found;
  return address < found->first + size(found->second) ? found : map.end();
}

}  // namespace

Counts& counts() {
  return world().counts;
}

void HardwareQueue::push(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    actions_.push_back(std::move(action));
  }
  changed_.notify_one();
}

void HardwareQueue::drain() {
  std::promise<void> done;
  push([&done] { done.set_value(); });
  done.get_future().wait();
}

void HardwareQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !actions_.empty(); });
    const auto action = std::move(actions_.front());
    actions_.pop_front();
    lock.unlock();
    delay();
    action();
    lock.lock();
  }
}

Stream::Stream(int device_) : device(device_), queue(next_queue(device_)) {}

std::shared_ptr<Capture> Stream::captures() const {
  const std::lock_guard lock(mutex_);
  return capture_ && !capture_->has_ended ? capture_ : nullptr;
}

std::shared_ptr<Capture> Stream::exchange_capture(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(mutex_);
  return std::exchange(capture_, std::move(capture));
}

void Stream::push(std::function<void()> action) {
  if (!captures()) queue.push(std::move(action));
}

Stream& stream_of(void* handle) {
  if (handle != nullptr) return *static_cast<Stream*>(handle);
  const int device = std::max(current, 0);
  Device& here = world().devices.at(static_cast<std::size_t>(device));
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!here.default_stream) here.default_stream = std::make_unique<Stream>(device);
  return *here.default_stream;
}

int current_device() {
  return current;
}

void set_current_device(int device) {
  current = device;
}

int device_count() {
  const char* text = std::getenv("FAKE_GPU_COUNT");
  return text == nullptr ? 8 : std::atoi(text);
}

void break_device(int device, int error) {
  world().devices.at(static_cast<std::size_t>(device)).sticky = error;
}

int sticky_error(int device) {
  return world().devices.at(static_cast<std::size_t>(device)).sticky;
}

int context_error() {
  return current < 0 ? kInvalidContext : sticky_error(current);
}

void drain_device(int device) {
  Device& here = world().devices.at(static_cast<std::size_t>(device));
  std::vector<HardwareQueue*> queues;
  {
    const std::lock_guard lock(here.mutex);
    for (const auto& queue : here.queues) {
      if (queue) queues.push_back(queue.get());
    }
  }
  for (HardwareQueue* queue : queues) queue->drain();
}

std::vector<DeviceBlock> device_blocks(int device) {
  std::vector<DeviceBlock> result;
  const std::lock_guard lock(world().memory_mutex);
  for (const auto& [address, block] : world().blocks) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    if (block.second == device) result.push_back({begin, begin + block.first});
  }
  return result;
}

void* allocate(std::size_t bytes) {
  if (current < 0) return nullptr;
  void* block = ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  std::memset(block, 0x5a, bytes);
  const std::lock_guard lock(world().memory_mutex);
  world().blocks[static_cast<char*>(block)] = {bytes, current};
  ++counts().blocks;
  return block;
}

std::size_t device_memory() {
  const char* text = std::getenv("FAKE_GPU_MEMORY");
  return text == nullptr ? std::size_t{8} << 30 : std::strtoull(text, nullptr, 10);
}

std::size_t free_memory() {
  const std::lock_guard lock(world().memory_mutex);
  std::size_t used = 0;
  for (const auto& [address, block] : world().blocks) used += block.second == current ? block.first : 0;
  return device_memory() - std::min(used, device_memory());
}

bool fits(std::size_t bytes) {
  return bytes <= free_memory();
}

bool release(void* block) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(world().memory_mutex);
    const auto found = world().blocks.find(static_cast<char*>(block));
    if (found == world().blocks.end()) return false;
    bytes = found->second.first;
    world().blocks.erase(found);
    world().released[static_cast<char*>(block)] = whole_pages(bytes);
    --counts().blocks;
  }
  // The addresses stay reserved, so that nothing else gets them.
  ::mmap(block, whole_pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return true;
}

int device_of(const void* memory) {
  const std::lock_guard lock(world().memory_mutex);
  const auto found = entry_of(world().blocks, static_cast<const char*>(memory), [](const auto& b) { return b.first; });
  return found == world().blocks.end() ? -1 : found->second.second;
}

bool may_use(int device, const void* memory, std::size_t bytes) {
  if (sticky_error(device) != 0) return false;
  if (bytes == 0) return true;
  const auto* first = static_cast<const char*>(memory);
  {
    const std::lock_guard lock(world().memory_mutex);
    const auto live = entry_of(world().blocks, first, [](const auto& block) { return block.first; });
    const bool fits = live == world().blocks.end() || first + bytes <= live->first + live->second.first;
    const bool is_released =
        entry_of(world().released, first, [](std::size_t size) { return size; }) != world().released.end();
    if (fits && !is_released) return true;
  }
  break_device(device, kIllegalAddress);
  return false;
}

void hang_if_asked(const char* function) {
  const auto is_asked = [function] {
    const std::lock_guard lock(world().hang_mutex);
    return world().hangs == function;
  };
  while (is_asked()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace fake_gpu

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void fake_gpu_counts(long* four) {
  const fake_gpu::Counts& now = fake_gpu::counts();
  four[0] = now.streams;
  four[1] = now.events;
  four[2] = now.blocks;
  four[3] = now.pinned;
}
EXPORT void fake_gpu_hang(const char* function) {
  const std::lock_guard lock(fake_gpu::world().hang_mutex);
  fake_gpu::world().hangs = function == nullptr ? "" : function;
}
EXPORT void fake_gpu_break(int device, int error) {
  fake_gpu::break_device(device, error);
}
