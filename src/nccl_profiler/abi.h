// Declares what NCCL passes to a profiler plug-in, for the versions 1 to 7 of its interface (NCCL 2.23 to 2.32). These
// are the layouts of the binary interface, limited to the members that are read here. NVIDIA documents them in the
// headers src/include/plugin/profiler/profiler_v1.h to profiler_v7.h of NCCL's sources.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp::nccl_profiler {

// The bits of the event mask have the same meaning in all versions.
inline constexpr std::uint64_t kGroup = 1U;           // NCCL launches what was called between two calls of the program
inline constexpr std::uint64_t kColl = 1U << 1U;      // a collective was put on its stream
inline constexpr std::uint64_t kP2p = 1U << 2U;       // a send or a receive was put on its stream
inline constexpr std::uint64_t kKernelCh = 1U << 6U;  // a kernel begins on a channel (its end is a state)
inline constexpr std::uint64_t kCollApi = 1U << 9U;   // the program calls a collective (from version 5 on)
inline constexpr std::uint64_t kP2pApi = 1U << 10U;   // the program calls a send or a receive (from version 5 on)

inline constexpr int kSuccess = 0;
inline constexpr int kKernelChStop = 22;  // the state of a kernel that has ended on a channel

// Every event begins like this. Until version 4 only the first byte of `type` is written.
struct Event {
  std::uint64_t type;
  void* parent;
  int rank;  // in the communicator; 0 for the events of the API
};

// Versions 5 to 7.
struct CollApi {
  Event event;
  const char* function;
  std::size_t count;
  const char* type;
  int root;
  void* stream;
  bool is_captured;  // the call is recorded in a CUDA graph, and runs when the graph is launched
};
struct P2pApi {
  Event event;
  const char* function;
  std::size_t count;
  const char* type;
  void* stream;
  bool is_captured;
};

// Versions 4 to 7.
struct Coll {
  Event event;
  std::uint64_t sequence;
  const char* function;
  const void* from;
  void* to;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels;  // on which its kernel runs
};
struct P2p {
  Event event;
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
};

// Versions 2 and 3.
struct CollV2 {
  Event event;
  const char* name;
  std::uint64_t communicator;
  std::uint64_t sequence;
  const char* function;
  const void* from;
  void* to;
  std::size_t count;
  int root;
  const char* type;
};
struct P2pV2 {
  Event event;
  const char* name;
  std::uint64_t communicator;
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
};

// Version 1 gives numbers instead of names.
struct CollV1 {
  Event event;
  const char* name;
  std::uint64_t communicator;
  std::uint64_t sequence;
  std::uint8_t function;
  const void* from;
  void* to;
  std::size_t count;
  int root;
  std::uint8_t type;
};
struct P2pV1 {
  Event event;
  const char* name;
  std::uint64_t communicator;
  std::uint8_t function;
  void* buffer;
  std::uint8_t type;
  std::size_t count;
  int peer;
};

using StartEvent = int(void* context, void** handle, const Event* event);
using StopEvent = int(void* handle);
using RecordState = int(void* handle, int state, void* arguments);
using Finalize = int(void* context);
using Log = void(int, unsigned long, const char*, int, const char*, ...);
using InitV1 = int(void** context, int* mask);
using InitV4 = int(void** context, int* mask, const char* name, std::uint64_t id, int nodes, int ranks, int rank, Log*);
using InitV5 = int(void** context, std::uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, Log*);

// This is what NCCL looks up. Variants of NCCL have further functions at the end of it, which are null here.
template <typename Init>
struct Plugin {
  const char* name;
  Init* init;
  StartEvent* start;
  StopEvent* stop;
  RecordState* record;
  Finalize* finalize;
  void* further[4];
};

}  // namespace ddp::nccl_profiler
