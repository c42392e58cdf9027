// A profiler plug-in of NCCL that asks for the events that ddplaunch's plug-in asks for, and does nothing with them.
#include "support/nccl_interface.h"

namespace {

using namespace ddp::test::nccl;

char handle;

int init_v1(void** context, int* mask) {
  *context = &handle;
  *mask = coll | p2p;
  return 0;
}
int init_v4(void** context, int* mask, const char*, std::uint64_t, int, int, int, void*) {
  return init_v1(context, mask);
}
int init_v5(void** context, std::uint64_t, int* mask, const char*, int, int, int, void*) {
  *context = &handle;
  *mask = coll_api | p2p_api | p2p;
  return 0;
}
template <bool names_groups>
int start(void*, void** of, void* event) {
  *of = names_groups && *static_cast<unsigned char*>(event) == group ? &handle : nullptr;
  return 0;
}
int stop(void*) {
  return 0;
}
int record(void*, int, void*) {
  return 0;
}
int finalize(void*) {
  return 0;
}

constexpr Functions kEarly = {start<true>, stop, record, finalize};
constexpr Functions kLate = {start<false>, stop, record, finalize};

}  // namespace

extern "C" {
#define DDP_PLUGIN __attribute__((visibility("default")))
DDP_PLUGIN PluginV1 ncclProfiler_v1 = {"idle", init_v1, kEarly};
DDP_PLUGIN PluginV1 ncclProfiler_v2 = {"idle", init_v1, kEarly};
DDP_PLUGIN PluginV1 ncclProfiler_v3 = {"idle", init_v1, kEarly};
DDP_PLUGIN PluginV4 ncclProfiler_v4 = {"idle", init_v4, kEarly};
DDP_PLUGIN PluginV5 ncclProfiler_v5 = {"idle", init_v5, kLate};
DDP_PLUGIN PluginV5 ncclProfiler_v6 = {"idle", init_v5, kLate};
DDP_PLUGIN PluginV5 ncclProfiler_v7 = {"idle", init_v5, kLate};
}
