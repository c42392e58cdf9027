#include "launcher/see/report/gpu_memory_report.h"

#include "base/text.h"
#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::ExitStatus;
using Known = GpuUsers::Known;
using Source = GpuMemoryError::Source;

namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
const std::string kUuids[] = {"aa11aa11-0000-0000-0000-000000000000", "ab22ab22-0000-0000-0000-000000000000",
                              "cc33cc33-0000-0000-0000-000000000000", "dd44dd44-0000-0000-0000-000000000000"};

// A job of two ranks on a node with four GPUs. Rank 1, with pid 101, is the culprit.
struct Job {
  LaunchPlan plan;
  JobOutcome outcome;
  GpuMemoryError error;
  GpuUsers users;

  Job() {
    for (int i = 0; i < 4; ++i) {
      GpuFacts gpu;
      gpu.index = i;
      gpu.uuid = "GPU-" + kUuids[i];
      plan.node_gpus.push_back(gpu);
    }
    plan.workers = 2;
    for (int i = 0; i < 2; ++i) {
      plan.devices.emplace_back(std::to_string(i));
      plan.device_indices.emplace_back(i);
      plan.visible_devices.emplace_back();
      WorkerEnd end;
      end.local_rank = end.rank = i;
      end.pid = 100 + i;
      end.status = ExitStatus::exited(1);
      outcome.ends.push_back(end);
    }
    outcome.cause = WorkerFailed{outcome.ends[1], {}};
    error.source = Source::pytorch;
    users.known = Known::memory;
  }
  WorkerEnd& culprit() { return std::get<WorkerFailed>(outcome.cause).end; }
  GpuMemoryFailure failure() const { return make_gpu_memory_failure(plan, outcome, error, users); }
  std::vector<std::string> lines() const { return gpu_memory_lines(failure()); }
  std::string tries() const { return lines().at(2); }
};

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a GPU memory report gives the requested and free memory and the GPU") {
  Job job;
  job.error.asked_bytes = 2 * kGib;
  job.error.free_bytes = kGib * 3 / 2;
  job.error.total_bytes = 79 * kGib;
  job.error.own_bytes = 77 * kGib;
  CHECK(job.lines() ==
        std::vector<std::string>{
            "out of GPU memory on GPU 1: 2 GiB requested, 1.5 GiB of 79 GiB free, 77 GiB used by this rank",
            "no other process uses GPU 1 after the failure",
            "try: a smaller batch with gradient accumulation; activation checkpointing "
            "(torch.utils.checkpoint)"});
  job.error = {};
  job.error.source = Source::nccl;
  job.users.known = Known::nothing;
  CHECK(job.lines() == std::vector<std::string>{"out of GPU memory on GPU 1, as NCCL reports",
                                                "ddplaunch cannot see which processes use GPU 1",
                                                "try: a smaller batch with gradient accumulation; ddp::ShardOptimizer, "
                                                "if the program uses ddp::DataParallel"});
}

TEST_CASE("the GPU is the one that the worker reports, or the one that its index means") {
  Job job;
  job.error.device = 0;
  CHECK(job.failure().gpu == 0);  // the rank sees all GPUs and did not select its own
  CHECK(job.lines()[0] == "out of GPU memory on GPU 0 (planned for this rank: GPU 1)");
  CHECK(contains(job.tries(), "torch.cuda.set_device(LOCAL_RANK)"));
  job.plan.inherited_environment = {"CUDA_VISIBLE_DEVICES=3,2"};
  CHECK(job.failure().gpu == 3);
  job.plan.visible_devices[1] = "2";
  CHECK(job.failure().gpu == 2);
  job.error.device = 1;
  CHECK_FALSE(job.failure().gpu.has_value());
  CHECK(contains(job.lines()[0], "out of GPU memory on the GPU"));
  job.culprit().gpu_uuid = kUuids[1];
  CHECK(job.failure().gpu == 1);
}

TEST_CASE("other ranks on the GPU are named with a remedy") {
  Job job;
  job.error.device = 0;
  job.error.others = {{100, 20 * kGib}};
  CHECK(job.lines()[1] == "also on GPU 0: rank 0 of this job (pid 100): 20 GiB");
  CHECK(contains(job.tries(), "torch.cuda.set_device(LOCAL_RANK)"));
  // The runtime names no processes, but the pages show which ranks had the same GPU.
  job.error = {};
  job.error.source = Source::runtime;
  job.culprit().gpu_uuid = job.outcome.ends[1].gpu_uuid = job.outcome.ends[0].gpu_uuid = kUuids[3];
  CHECK(job.lines()[1] == "also on GPU 3: rank 0 of this job (pid 100)");
  CHECK(contains(job.tries(), "give each rank its own GPU (its local rank selects it)"));
  job.outcome.ends[0].gpu_uuid = kUuids[2];
  CHECK(job.lines()[1] == "no other process uses GPU 3 after the failure");
}

TEST_CASE("processes outside of the job are named with their memory") {
  Job job;
  job.users.users = {{4711, 39 * kGib, "python3", 1001}, {101, kGib, "train", {}}, {4712, {}, "vi", {}}};
  job.error.others = {{4711, 38 * kGib}};
  CHECK(job.lines()[1] == "also on GPU 1: pid 4711 (python3, user 1001): 38 GiB; pid 4712 (vi)");
  CHECK(contains(job.tries(), "end pid 4711, or choose other GPUs with --gpus"));
  for (int i = 0; i < 20; ++i) job.users.users.push_back({5000 + i, kGib, "x", {}});
  CHECK(contains(job.lines()[1], "; 14 more processes"));
}

TEST_CASE("the report says what the kernel and the driver do not show") {
  Job job;
  job.users.known = Known::device_files;
  job.users.is_partial = true;
  CHECK(job.lines()[1] ==
        "no other process uses GPU 1 after the failure; processes of other users are not visible to ddplaunch here");
  job.users.users = {{4711, {}, "python3", {}}};
  CHECK(job.lines()[1].starts_with("also on GPU 1: pid 4711 (python3); processes of other users"));
  CHECK_FALSE(contains(job.tries(), "end pid"));  // an open device file does not prove that memory is held
  job.users = {Known::memory, true, false, true, {{100, kGib, "", {}}}};
  CHECK(job.lines()[1] == "also on GPU 1: pid 100 of the node: 1 GiB");  // not rank 0, whose pid is the container's
  CHECK_FALSE(contains(job.tries(), "end pid"));
}

TEST_CASE("in a container the driver's pids are not mistaken for those of ranks") {
  Job job;
  job.users = {Known::device_files, false, false, true, {}};
  CHECK(job.lines()[1] ==
        "no other process uses GPU 1 after the failure; processes outside of this container are not visible");
  job.error.others = {{100, 70 * kGib}};
  CHECK(job.lines()[1] == "also on GPU 1: pid 100 of the node: 70 GiB");
  CHECK_FALSE(contains(job.tries(), "end pid"));
  CHECK_FALSE(contains(job.tries(), "give each rank its own GPU"));
}

TEST_CASE("the report suggests a remedy for the process that holds most memory") {
  Job job;
  job.users.users = {{7, kGib / 64, "Xorg", 0}};
  CHECK_FALSE(contains(job.tries(), "end pid"));
  job.users.users.push_back({8, 2 * kGib, "python3", {}});
  job.users.users.push_back({9, 30 * kGib, "python3", {}});
  CHECK(contains(job.tries(), "end pid 9"));
}

TEST_CASE("the report suggests a remedy for unused memory that PyTorch holds") {
  struct Case {
    std::uint64_t unused, asked;
    bool is_suggested;
  };
  for (const Case& one : {Case{kGib, 2 * kGib, false}, {2 * kGib, 2 * kGib, true}, {9 * kGib, 20 * kGib, true}}) {
    Job job;
    job.error.total_bytes = 80 * kGib;
    job.error.unused_bytes = one.unused;
    job.error.asked_bytes = one.asked;
    CHECK(contains(job.tries(), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True") == one.is_suggested);
  }
}

TEST_CASE("the error record is preferred to the last lines") {
  const std::string text = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has";
  CHECK(gpu_memory_error_of(ErrorRecord{text}, {})->asked_bytes == kGib);
  CHECK(gpu_memory_error_of(ErrorRecord{text}, {"CUDA out of memory. Tried to allocate 2.00 GiB. "})->asked_bytes ==
        kGib);
  const ErrorRecord nccl{"torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error"};
  const std::string traceback = "[rank0]: Traceback (most recent call last):";
  const std::string reason = "[rank0]: Cuda failure 2 'out of memory'";
  CHECK(gpu_memory_error_of(nccl, {traceback, "[rank0]: " + nccl.message, "[rank0]: Last error:", reason})->source ==
        Source::nccl);
  CHECK_FALSE(gpu_memory_error_of(ErrorRecord{"ValueError"}, {"caught: " + text, traceback, "ValueError"}).has_value());
  CHECK_FALSE(gpu_memory_error_of(ErrorRecord{"lost rank 1", true}, {"caught: " + text}).has_value());
  CHECK(gpu_memory_error_of(std::nullopt, {text})->asked_bytes == kGib);
  CHECK_FALSE(gpu_memory_error_of(ErrorRecord{"ValueError"}, {"MemoryError"}).has_value());
}
