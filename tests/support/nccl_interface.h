// Declares the profiler interface of NCCL as NCCL's own headers do (src/include/plugin/profiler), with all members of
// the events that NCCL fills. It is separate from the plug-in's declarations, so that a test notices a wrong layout.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace ddp::test::nccl {

template <typename Type, typename Body>
struct Event {
  Type type{};
  void* parent = nullptr;
  int rank = 0;
  union {
    Body body{};
    std::uint64_t largest[16];  // the union of all bodies
  };
};

namespace v1 {
struct Coll {
  const char* name;
  std::uint64_t comm_hash;
  std::uint64_t seq_number;
  std::uint8_t func;
  const void* send_buff;
  void* recv_buff;
  std::size_t count;
  int root;
  std::uint8_t datatype;
  std::uint32_t op;
  std::size_t traffic_bytes;
  std::uint8_t max_channels;
  std::uint8_t warps;
  std::uint8_t algo;
  std::uint8_t proto;
  int is_collnet;
  int is_nvls;
};
struct P2p {
  const char* name;
  std::uint64_t comm_hash;
  std::uint8_t func;
  void* buff;
  std::uint8_t datatype;
  std::size_t count;
  int peer;
};
}  // namespace v1

namespace v2 {
struct Coll {
  const char* name;
  std::uint64_t comm_hash;
  std::uint64_t seq_number;
  const char* func;
  const void* send_buff;
  void* recv_buff;
  std::size_t count;
  int root;
  const char* datatype;
  std::size_t traffic_bytes;  // not in version 3
  std::uint8_t max_channels;
  std::uint8_t warps;
  const char* algo;
  const char* proto;
};
struct P2p {
  const char* name;
  std::uint64_t comm_hash;
  const char* func;
  void* buff;
  const char* datatype;
  std::size_t count;
  int peer;
};
}  // namespace v2

namespace v4 {
struct Coll {
  std::uint64_t seq_number;
  const char* func;
  const void* send_buff;
  void* recv_buff;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algo;
  const char* proto;
};
struct P2p {
  const char* func;
  void* buff;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};
}  // namespace v4

// Versions 6 and 7 add members behind these.
namespace v5 {
struct GroupApi {
  bool graph_captured;
  int group_depth;
};
struct CollApi {
  const char* func;
  std::size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graph_captured;
};
struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t timer;
};
struct P2pApi {
  const char* func;
  std::size_t count;
  const char* datatype;
  void* stream;
  bool graph_captured;
};
}  // namespace v5

enum Kind : std::uint64_t {
  group = 1U << 0U,
  coll = 1U << 1U,
  p2p = 1U << 2U,
  proxy_op = 1U << 3U,
  kernel_channel = 1U << 6U,
  group_api = 1U << 8U,
  coll_api = 1U << 9U,
  p2p_api = 1U << 10U,
  kernel_launch = 1U << 11U,
};

// The functions that follow `init` are the same in all versions.
struct Functions {
  int (*start)(void* context, void** handle, void* event);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};
struct PluginV1 {
  const char* name;
  int (*init)(void** context, int* mask);
  Functions functions;
};
struct PluginV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* name, std::uint64_t hash, int nodes, int ranks, int rank,
              void* log);
  Functions functions;
};
struct PluginV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, void* log);
  Functions functions;
};

}  // namespace ddp::test::nccl
