#include "support/fake_gpu/fake_profiler.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "support/nccl_player.h"

namespace fake_gpu {
namespace {

using ddp::test::NcclPlayer;

struct Profiled {
  std::shared_ptr<NcclPlayer> plugin;
  NcclPlayer::Communicator communicator;
};

std::mutex mutex;
std::weak_ptr<NcclPlayer> loaded;
std::map<const Comm*, Profiled> profiled;

const char* name_of_type(int type) {
  constexpr const char* kNames[] = {"ncclInt8",   "ncclUint8",   "ncclInt32",   "ncclUint32",  "ncclInt64",
                                    "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  return kNames[type];
}

// NCCL goes on without a plug-in that cannot be loaded, and unloads it with the last communicator.
std::shared_ptr<NcclPlayer> load() {
  const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
  if (name == nullptr || std::string(name) == "none") return nullptr;
  if (auto there = loaded.lock()) return there;
  const char* version = std::getenv("FAKE_NCCL_PROFILER");
  try {
    auto made = std::make_shared<NcclPlayer>(name, version == nullptr ? 6 : std::atoi(version));
    loaded = made;
    return made;
  } catch (const std::exception&) {
    return nullptr;
  }
}

template <typename Play>
void play(Comm& comm, Play&& how) {
  const std::lock_guard lock(mutex);
  const auto found = profiled.find(&comm);
  if (found != profiled.end()) how(*found->second.plugin, found->second.communicator);
}

bool is_captured(void* stream) {
  return stream_of(stream).captures() != nullptr;
}

}  // namespace

void begin_profile(Comm& comm, std::uint64_t id) {
  const std::lock_guard lock(mutex);
  auto plugin = load();
  if (plugin == nullptr) return;
  const auto communicator = plugin->init(id, comm.size, comm.rank);
  profiled[&comm] = {std::move(plugin), communicator};
}

void end_profile(Comm& comm) {
  const std::lock_guard lock(mutex);
  const auto found = profiled.find(&comm);
  if (found == profiled.end()) return;
  found->second.plugin->finalize(found->second.communicator);
  profiled.erase(found);
}

// As with NCCL, a communicator of one rank calls nothing.
void* profile_collective(Comm& comm, const char* function, std::size_t count, int type, int root, void* stream) {
  void* made = nullptr;
  if (comm.size == 1) return made;
  play(comm, [&](NcclPlayer& plugin, NcclPlayer::Communicator& on) {
    made = plugin.collective(on, function, count, name_of_type(type), root, is_captured(stream), /*runs=*/false);
  });
  return made;
}

void* begin_kernel(Comm& comm, void* collective) {
  void* kernel = nullptr;
  play(comm, [&](NcclPlayer& plugin, NcclPlayer::Communicator& on) { kernel = plugin.begin_kernel(on, collective); });
  return kernel;
}

void hang_if_asked(Comm& comm) {
  static std::atomic<int> calls{0};
  const char* const text = std::getenv("FAKE_NCCL_HANG");
  const char* const rank = std::getenv("RANK");
  const char* const attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  int who = 0;
  int number = 0;
  int attempts = 0;
  if (text == nullptr || std::sscanf(text, "%d:%d:%d", &who, &number, &attempts) != 3) return;
  if (rank == nullptr || std::atoi(rank) != who || attempt == nullptr || std::atoi(attempt) >= attempts) return;
  if (++calls == number) comm.until([] { return false; });
}

void end_kernel(Comm& comm, void* kernel) {
  play(comm, [&](NcclPlayer& plugin, NcclPlayer::Communicator&) { plugin.end_kernel(kernel); });
}

void profile_transfer(Comm& comm, const char* function, std::size_t count, int type, int peer, void* stream) {
  play(comm, [&](NcclPlayer& plugin, NcclPlayer::Communicator& on) {
    plugin.transfer(on, function, count, peer, name_of_type(type), is_captured(stream));
  });
}

}  // namespace fake_gpu
