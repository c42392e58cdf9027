#include "launcher/see/report/gpu_memory_report.h"

#include <random>
#include <string>

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

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

std::uint64_t gib(double value) {
  return static_cast<std::uint64_t>(value * 1024 * static_cast<double>(kMib) + 0.5);
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

TEST_CASE("the numbers in PyTorch's out-of-memory error are parsed") {
  const auto error = find_gpu_memory_error(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB "
      "of which 1.31 GiB is free. Process 4711 has 20.50 GiB memory in use. Process 12 has 512.00 MiB memory in use. "
      "Including non-PyTorch memory, this process has 57.12 GiB memory in use. 70.00 GiB allowed; Of the allocated "
      "memory 50.79 GiB is allocated by PyTorch, with 12.00 MiB allocated in private pools (e.g., CUDA Graphs), and "
      "4.96 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting X.");
  REQUIRE(error.has_value());
  CHECK(error->source == Source::pytorch);
  CHECK(error->device == 1);
  CHECK(error->asked_bytes == gib(2));
  CHECK(error->total_bytes == gib(79.15));
  CHECK(error->free_bytes == gib(1.31));
  CHECK(error->own_bytes == gib(57.12));
  CHECK(error->unused_bytes == gib(4.96));
  CHECK(error->others == std::vector<GpuMemoryError::Other>{{4711, gib(20.5)}, {12, 512 * kMib}});
}

TEST_CASE("out-of-memory errors of older PyTorch versions are parsed") {
  const auto misspelt = find_gpu_memory_error(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 KiB. GPU 0 has a total capacty of "
      "7.92 "
      "GiB of which 0 bytes is free. ");
  REQUIRE(misspelt.has_value());
  CHECK(misspelt->asked_bytes == 512 * 1024);
  CHECK(misspelt->total_bytes == gib(7.92));
  CHECK(misspelt->free_bytes == 0);
  CHECK_FALSE(misspelt->own_bytes.has_value());
  const auto list = find_gpu_memory_error(
      "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 3; 10.76 GiB total capacity; 9.51 GiB "
      "already "
      "allocated; 14.75 MiB free; 9.71 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory");
  REQUIRE(list.has_value());
  CHECK(list->source == Source::pytorch);
  CHECK(list->device == 3);
  CHECK(list->asked_bytes == 20 * kMib);
  CHECK(list->total_bytes == gib(10.76));
  CHECK(list->free_bytes == 15466496);
  CHECK(list->own_bytes == gib(9.71));
  CHECK(list->unused_bytes == gib(9.71) - gib(9.51));
}

TEST_CASE("rarer out-of-memory errors of PyTorch are parsed as far as they have numbers") {
  const auto oldest = find_gpu_memory_error(
      "RuntimeError: CUDA out of memory. Tried to allocate 1024.00 MiB (GPU 0; 15.90 GiB total capacity; 14.25 GiB "
      "already allocated; 991.56 MiB free; 607.00 KiB cached)");
  REQUIRE(oldest.has_value());
  CHECK(oldest->asked_bytes == 1024 * kMib);
  CHECK(oldest->own_bytes == gib(14.25));
  CHECK_FALSE(oldest->unused_bytes.has_value());
  const auto limited = find_gpu_memory_error(
      "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed "
      "per_process_memory_fraction limit. Requested size: 3.00 GiB");
  REQUIRE(limited.has_value());
  CHECK(limited->asked_bytes == gib(3));
  const auto absurd = find_gpu_memory_error("CUDA out of memory. Tried to allocate more than 1EB memory.");
  REQUIRE(absurd.has_value());
  CHECK_FALSE(absurd->asked_bytes.has_value());
}

TEST_CASE("the numbers in the runtime's out-of-memory error are parsed") {
  const auto error = find_gpu_memory_error(
      "ddp::Error (unavailable): out of GPU memory: 1.5 GiB were requested on GPU 2, where 12 MiB of 79 GiB are free "
      "(CUDA_ERROR_OUT_OF_MEMORY). Use a smaller batch");
  REQUIRE(error.has_value());
  CHECK(error->source == Source::runtime);
  CHECK(error->device == 2);
  CHECK(error->asked_bytes == gib(1.5));
  CHECK(error->free_bytes == 12 * kMib);
  CHECK(error->total_bytes == gib(79));
}

TEST_CASE("out-of-memory errors without numbers are found by their names") {
  struct Case {
    const char* text;
    std::optional<Source> source;
  };
  const Case cases[] = {
      {"train.cu:7: cudaErrorMemoryAllocation", Source::cuda},
      {"RuntimeError: CUDA error: out of memory", Source::cuda},
      {"cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY", Source::cuda},
      {"a:1:2 [0] NCCL WARN Cuda failure 2 'out of memory'", Source::nccl},
      {"transport.cc:1 NCCL WARN Cuda failure 'out of memory'", Source::nccl},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", Source::cublas},
      {"RuntimeError: [enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.",
       std::nullopt},
      {"MemoryError", std::nullopt},
      {"", std::nullopt},
  };
  for (const Case& expected : cases) {
    CAPTURE(expected.text);
    const auto error = find_gpu_memory_error(expected.text);
    REQUIRE(error.has_value() == expected.source.has_value());
    if (error) CHECK(error->source == *expected.source);
  }
}

TEST_CASE("the last of several errors counts, and one with numbers is preferred") {
  const std::string first = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total\n";
  const std::string second = "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total\n";
  CHECK(find_gpu_memory_error(first + second)->asked_bytes == gib(3));
  CHECK(find_gpu_memory_error(first + "CUDA_ERROR_OUT_OF_MEMORY")->asked_bytes == gib(1));
  CHECK(find_gpu_memory_error("NCCL WARN Cuda failure 2 'out of memory'\nCUBLAS_STATUS_ALLOC_FAILED")->source ==
        Source::cublas);
}

TEST_CASE("find_gpu_memory_error() accepts damaged messages and leaves out numbers that are out of range") {
  const std::string whole =
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB is "
      "free. Process 4711 has 20.50 GiB memory in use. and 4.96 GiB is reserved by PyTorch but unallocated.";
  for (std::size_t size = 0; size <= whole.size(); ++size) (void)find_gpu_memory_error(whole.substr(0, size));
  const auto huge =
      find_gpu_memory_error("CUDA out of memory. Tried to allocate 99999999999.9 PiB. GPU 99999999999 has");
  REQUIRE(huge.has_value());
  CHECK_FALSE(huge->asked_bytes.has_value());
  CHECK_FALSE(huge->device.has_value());
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (int change = 0; change < 4; ++change) text[random() % text.size()] = static_cast<char>(random() % 256);
    (void)find_gpu_memory_error(text);
  }
}
