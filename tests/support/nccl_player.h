// NcclPlayer loads a profiler plug-in as NCCL does, and calls it as NCCL does when a program calls collectives.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "support/nccl_interface.h"

namespace ddp::test {

inline constexpr int kNewestNcclProfiler = 7;

class NcclPlayer {
 public:
  // Plays the interface of this version. Like NCCL, it holds the library while there are communicators.
  NcclPlayer(const std::string& plugin, int version) : version_(version) {
    library_ = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    plugin_ = ::dlsym(library_, ("ncclProfiler_v" + std::to_string(version)).c_str());
    if (plugin_ == nullptr) throw std::runtime_error("no such version");
    functions_ = version < 4    ? static_cast<nccl::PluginV1*>(plugin_)->functions
                 : version == 4 ? static_cast<nccl::PluginV4*>(plugin_)->functions
                                : static_cast<nccl::PluginV5*>(plugin_)->functions;
  }
  ~NcclPlayer() { ::dlclose(library_); }
  NcclPlayer(const NcclPlayer&) = delete;
  NcclPlayer& operator=(const NcclPlayer&) = delete;

  int version() const { return version_; }
  // NCCL reads it in the same way.
  int mask() const { return __atomic_load_n(&mask_, __ATOMIC_RELAXED); }

  std::uint8_t channels = 1;  // on which kernels run that are launched from now on

  struct Communicator {
    void* context = nullptr;
    std::uint64_t id = 0;
    const char* name = nullptr;
    int rank = 0;
    std::uint64_t sequences[16] = {};
  };

  Communicator init(std::uint64_t id, int ranks, int rank, const char* name = nullptr) {
    Communicator made{nullptr, id, name, rank};
    if (version_ < 4) check(static_cast<nccl::PluginV1*>(plugin_)->init(&made.context, &mask_));
    if (version_ == 4) {
      check(static_cast<nccl::PluginV4*>(plugin_)->init(&made.context, &mask_, name, id, 1, ranks, rank,
                                                        reinterpret_cast<void*>(log)));
    }
    if (version_ > 4) {
      check(static_cast<nccl::PluginV5*>(plugin_)->init(&made.context, id, &mask_, name, 1, ranks, rank,
                                                        reinterpret_cast<void*>(log)));
    }
    return made;
  }
  void finalize(Communicator& communicator) { check(functions_.finalize(communicator.context)); }

  // Plays a call outside of a group. `is_captured` means that a CUDA graph records it. Returns what NCCL keeps for the
  // collective. Its kernel runs at once, unless `runs` is false.
  void* collective(Communicator& on, const char* function, std::size_t count, const char* type = "ncclFloat32",
                   int root = 0, bool is_captured = false, bool runs = true) {
    void* api = nullptr;
    if (asks_for(nccl::coll_api | nccl::coll | nccl::kernel_channel)) {
      api = start(on, nccl::coll_api, nccl::v5::CollApi{function, count, type, root, nullptr, is_captured}, 0);
      stop(api);
    }
    void* const handle = is_captured ? nullptr : launch(on, function, count, type, root, false, api);
    for (int channel = 0; runs && channel < channels; ++channel) end_kernel(begin_kernel(on, handle));
    return handle;
  }

  // Plays what NCCL does when a kernel is launched. It counts no launch that a CUDA graph repeats.
  void* launch(Communicator& on, const char* function, std::size_t count, const char* type, int root, bool by_graph,
               void* api = nullptr) {
    void* const group = begin_group(on);
    const std::uint64_t number =
        by_graph && version_ > 2 ? on.sequences[number_of(function)] : on.sequences[number_of(function)]++;
    void* handle = nullptr;
    if (has_parts(group) && (mask() & (nccl::coll | nccl::kernel_channel)) != 0) {
      if (version_ == 1) {
        handle = start(on, nccl::coll,
                       nccl::v1::Coll{on.name, on.id, number, static_cast<std::uint8_t>(number_of(function)), nullptr,
                                      nullptr, count, root, number_of_type(type), 0, 0, 0, 0, 0, 0, 0, 0},
                       on.rank);
      } else if (version_ < 4) {
        handle = start(on, nccl::coll,
                       nccl::v2::Coll{on.name, on.id, number, function, nullptr, nullptr, count, root, type, 0, 0, 0,
                                      "RING", "LL"},
                       on.rank);
      } else {
        handle = start(on, nccl::coll,
                       nccl::v4::Coll{number, function, nullptr, nullptr, count, root, type, channels, 1, "RING", "LL"},
                       on.rank, version_ == 4 ? group : api);
      }
      stop(handle);
    }
    stop(group);
    return handle;
  }

  // Plays a kernel on one of its channels. Returns what NCCL keeps for it.
  void* begin_kernel(Communicator& on, void* collective) {
    if (version_ < 4 || collective == nullptr || (mask() & nccl::kernel_channel) == 0) return nullptr;
    return start(on, nccl::kernel_channel, nccl::v5::KernelChannel{0, ++timer_}, on.rank, collective);
  }
  void end_kernel(void* kernel) {
    constexpr int kStopped = 22;
    if (kernel == nullptr) return;
    std::uint64_t time = ++timer_;
    check(functions_.record(kernel, kStopped, &time));
    stop(kernel);
  }

  void transfer(Communicator& on, const char* function, std::size_t count, int peer, const char* type = "ncclFloat32",
                bool is_captured = false) {
    if (asks_for(nccl::p2p_api | nccl::p2p)) {
      stop(start(on, nccl::p2p_api, nccl::v5::P2pApi{function, count, type, nullptr, is_captured}, 0));
    }
    if (is_captured) return;
    void* const group = begin_group(on);
    if (has_parts(group) && (mask() & nccl::p2p) != 0) {
      void* handle = nullptr;
      if (version_ == 1) {
        handle = start(on, nccl::p2p,
                       nccl::v1::P2p{on.name, on.id, static_cast<std::uint8_t>(number_of(function)), nullptr,
                                     number_of_type(type), count, peer},
                       on.rank);
      } else if (version_ < 4) {
        handle = start(on, nccl::p2p, nccl::v2::P2p{on.name, on.id, function, nullptr, type, count, peer}, on.rank);
      } else {
        handle = start(on, nccl::p2p, nccl::v4::P2p{function, nullptr, type, count, peer, 1}, on.rank);
      }
      stop(handle);
    }
    stop(group);
  }

  // For events that are malformed, or in a wrong order.
  const nccl::Functions& functions() const { return functions_; }

 private:
  static void log(int, unsigned long, const char*, int, const char*, ...) {}
  // Until version 4, the type has one byte, and what is behind it is undefined.
  template <typename Body>
  void* start(Communicator& on, std::uint64_t kind, const Body& body, int rank, void* parent = nullptr) {
    void* handle = reinterpret_cast<void*>(0x10);
    if (version_ < 5) {
      nccl::Event<std::uint8_t, Body> event;
      std::memset(static_cast<void*>(&event), 0xa5, sizeof event);
      event.type = static_cast<std::uint8_t>(kind);
      event.parent = parent;
      event.rank = rank;
      event.body = body;
      check(functions_.start(on.context, &handle, &event));
    } else {
      nccl::Event<std::uint64_t, Body> event;
      event.type = kind;
      event.parent = parent;
      event.rank = rank;
      event.body = body;
      check(functions_.start(on.context, &handle, &event));
    }
    return handle;
  }
  // NCCL 2.23 stops events without a handle, too.
  void stop(void* handle) {
    if (handle != nullptr || version_ == 1) check(functions_.stop(handle));
  }
  bool asks_for(int kinds) const { return version_ >= 5 && (mask() & kinds) != 0; }
  void* begin_group(Communicator& on) {
    constexpr int kParts = nccl::group | nccl::coll | nccl::p2p | nccl::proxy_op | nccl::kernel_channel;
    return (mask() & kParts) == 0 ? nullptr : start(on, nccl::group, nccl::v5::GroupApi{}, 0);
  }
  // Until version 4, NCCL reports the parts of a group only if the group has a handle.
  bool has_parts(const void* group) const { return version_ > 4 || group != nullptr; }
  void check(int result) const {
    if (result != 0) throw std::runtime_error("the plug-in returned an error");
  }

  static int number_of(const std::string& function) {
    constexpr const char* kNames[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv",
                                      "Send",      "Recv",   "AlltoAll",  "Gather",        "Scatter"};
    for (int i = 0; i < 11; ++i) {
      if (function == kNames[i]) return i;
    }
    return 15;
  }
  static std::uint8_t number_of_type(const std::string& type) {
    constexpr const char* kNames[] = {"ncclInt8",   "ncclUint8",   "ncclInt32",   "ncclUint32",  "ncclInt64",
                                      "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
    for (std::uint8_t i = 0; i < 10; ++i) {
      if (type == kNames[i]) return i;
    }
    return 255;
  }

  const int version_;
  void* library_ = nullptr;
  void* plugin_ = nullptr;
  nccl::Functions functions_{};
  int mask_ = 0;
  std::uint64_t timer_ = 0;
};

}  // namespace ddp::test
