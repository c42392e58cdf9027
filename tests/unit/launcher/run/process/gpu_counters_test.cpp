#include "launcher/run/process/gpu_counters.h"

#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

// Describes two GPUs. The processes 100 and 101 use the second one.
const std::vector<GpuCounters> kNodeGpus = {{"GPU-aa", 7, 1000, {55}}, {"GPU-bb", 90, 2000, {100, 101}}};

}  // namespace

TEST_CASE("a line of the GPU reader is parsed") {
  const std::vector<GpuCounters> node_gpus = {kNodeGpus[0], {"GPU-cc", {}, {}, {}, {{7, {}}, {8, 1 << 20}}, true}};
  const std::string line = to_line(node_gpus);
  CHECK(line.ends_with("\n"));
  CHECK(gpus_from_line(line) == node_gpus);
  CHECK(gpus_from_line("[]\n") == std::vector<GpuCounters>());
  for (const char* text : {"", "x", "{\"uuid\":1}", "[{}]", "[1]", R"([{"uuid":"a","busy_percent":"b"}])"}) {
    CAPTURE(text);
    CHECK_FALSE(gpus_from_line(text));
  }
}

TEST_CASE("the GPUs of a rank are those that its processes use") {
  CHECK(gpus_of_rank(kNodeGpus, std::vector<pid_t>{7, 101}, "0") == GpuSample{90, 2000});
  CHECK(gpus_of_rank(kNodeGpus, std::vector<pid_t>{55, 100}, "") == GpuSample{90, 3000});
}

TEST_CASE("all visible GPUs count for a rank whose processes use no known GPU") {
  const std::vector<pid_t> processes = {7};
  CHECK(gpus_of_rank(kNodeGpus, processes, "0") == GpuSample{7, 1000});
  CHECK(gpus_of_rank(kNodeGpus, processes, "GPU-bb") == GpuSample{90, 2000});
  CHECK(gpus_of_rank(kNodeGpus, processes, "0,1") == GpuSample{90, 3000});
  CHECK(gpus_of_rank(kNodeGpus, processes, std::nullopt) == GpuSample{90, 3000});
  CHECK(gpus_of_rank(kNodeGpus, processes, "") == GpuSample{0, 0});
  // Nothing is reported for a part of a GPU.
  CHECK_FALSE(gpus_of_rank(kNodeGpus, processes, "MIG-1"));
}

TEST_CASE("an unreadable GPU counter stays unknown for the rank") {
  std::vector<GpuCounters> node_gpus = kNodeGpus;
  node_gpus[0].moved_bytes.reset();
  CHECK(gpus_of_rank(node_gpus, {}, "0,1") == GpuSample{90, std::nullopt});
  CHECK(gpus_of_rank(node_gpus, {}, "1") == GpuSample{90, 2000});
  node_gpus[0].busy_percent.reset();
  CHECK_FALSE(gpus_of_rank(node_gpus, {}, "0,1"));
  CHECK(gpus_of_rank(node_gpus, {}, "1") == GpuSample{90, 2000});
}

TEST_CASE("the views show a rank's GPU use and the GPU memory of its processes") {
  std::vector<GpuCounters> node_gpus = kNodeGpus;
  node_gpus[1].holders = {{100, 3000}, {101, 4000}, {9, 500}};
  const std::vector<pid_t> processes = {100, 101};
  CHECK(gpu_use_of_rank(node_gpus, processes, "0,1") == RankGpuUse{0.9, 7000});
  node_gpus[1].holders[0].bytes.reset();
  CHECK(gpu_use_of_rank(node_gpus, processes, "0,1") == RankGpuUse{0.9, std::nullopt});
}

TEST_CASE("a rank that uses no GPU yet shows its only visible GPU, or none of several") {
  const std::vector<pid_t> processes = {7};
  CHECK(gpu_use_of_rank(kNodeGpus, processes, "0") == RankGpuUse{0.07, std::nullopt});
  CHECK(gpu_use_of_rank(kNodeGpus, processes, "0,1") == RankGpuUse{});
  CHECK(gpu_use_of_rank(kNodeGpus, processes, std::nullopt) == RankGpuUse{});
  CHECK(gpu_use_of_rank(kNodeGpus, processes, "") == RankGpuUse{});
  CHECK(gpu_use_of_rank(kNodeGpus, processes, "MIG-1") == RankGpuUse{});
}

TEST_CASE("in a container the memory of a GPU belongs to the rank whose process holds all of it") {
  std::vector<GpuCounters> node_gpus = {{"GPU-aa", 50, 1000, {}, {{70'000, 3000}}, true}};
  CHECK(gpu_use_of_rank(node_gpus, std::vector<pid_t>{7}, "0") == RankGpuUse{0.5, 3000});
  node_gpus[0].holders.push_back({70'001, 1000});
  CHECK(gpu_use_of_rank(node_gpus, std::vector<pid_t>{7}, "0") == RankGpuUse{0.5, std::nullopt});
}
