#include "launcher/start/plan/used_gpu.h"

#include "support/catch.h"
#include "support/situation.h"

using namespace ddp::launcher;

namespace {

const std::string kUuids[] = {"aa11aa11-0000-0000-0000-000000000000", "ab22ab22-0000-0000-0000-000000000000",
                              "cc33cc33-0000-0000-0000-000000000000", "dd44dd44-0000-0000-0000-000000000000"};
const std::string kUnknown = "ee55ee55-0000-0000-0000-000000000000";

struct Machine : Situation {
  Machine() {
    for (std::size_t i = 0; i < facts.gpus.size(); ++i) facts.gpus[i].uuid = "GPU-" + kUuids[i];
    options.nproc_per_node = 2;
  }
  Machine& sees(const std::string& visible) {
    facts.environment.push_back("CUDA_VISIBLE_DEVICES=" + visible);
    return *this;
  }
  Machine& has(const std::string& variable) {
    facts.environment.push_back(variable);
    return *this;
  }
};

}  // namespace

TEST_CASE("a worker's GPU is compared with the planned one by UUID") {
  const LaunchPlan plan = Machine().sees("2,0").plan();
  CHECK_FALSE(uses_other_gpu(plan, 0, kUuids[2]));
  CHECK(uses_other_gpu(plan, 0, kUuids[0]));
  CHECK_FALSE(uses_other_gpu(plan, 1, kUuids[0]));
  CHECK_FALSE(uses_other_gpu(plan, 0, ""));        // the worker does not report its GPU
  CHECK_FALSE(uses_other_gpu(plan, 0, kUnknown));  // a MIG slice of the planned GPU, or a GPU that /proc does not show
  CHECK_FALSE(uses_other_gpu(plan, 7, kUuids[0]));
  CHECK_FALSE(uses_other_gpu(Machine().sees("GPU-cc33,GPU-aa11").plan(), 0, kUuids[2]));
  CHECK(uses_other_gpu(Machine().sees("GPU-cc33,GPU-aa11").plan(), 1, kUuids[2]));
}

TEST_CASE("a MIG slice is compared if the plan names it") {
  const LaunchPlan plan = Machine().sees("MIG-" + kUuids[3] + ",MIG-GPU-" + kUuids[3] + "/1/0").plan();
  CHECK_FALSE(uses_other_gpu(plan, 0, kUuids[3]));
  CHECK(uses_other_gpu(plan, 0, kUnknown));
  CHECK_FALSE(uses_other_gpu(plan, 1, kUnknown));  // the old form of the name has no UUID of the slice
}

TEST_CASE("no GPU is compared if the driver does not show the UUIDs") {
  Machine machine;
  for (GpuFacts& gpu : machine.facts.gpus) gpu.uuid.clear();
  CHECK_FALSE(uses_other_gpu(machine.plan(), 0, kUuids[1]));
  CHECK(used_gpu(machine.plan(), 0, kUuids[1]) == "0");
}

TEST_CASE("UUIDs that the driver shows later are added to the plan") {
  Machine machine;
  const std::vector<GpuFacts> later = machine.facts.gpus;
  CHECK_FALSE(lacks_uuids(machine.plan()));
  for (GpuFacts& gpu : machine.facts.gpus) gpu.uuid.clear();
  const LaunchPlan before = machine.plan();
  CHECK(lacks_uuids(before));
  const LaunchPlan now = with_uuids(before, later);
  CHECK_FALSE(lacks_uuids(now));
  CHECK(uses_other_gpu(now, 0, kUuids[1]));
  CHECK(with_uuids(before, {}).node_gpus == before.node_gpus);
}

TEST_CASE("reports name the GPU that a worker actually uses") {
  const LaunchPlan plan = Machine().sees("2,0").plan();
  CHECK(used_gpu(plan, 0, kUuids[2]) == "2");
  CHECK(used_gpu(plan, 0, "") == "2");
  CHECK(used_gpu(plan, 0, kUuids[3]) == "3 (planned: 2)");
  Machine cpus;
  cpus.options.backend = "gloo";
  cpus.options.nproc_per_node = 8;
  CHECK(used_gpu(cpus.plan(), 0, "").empty());
  CHECK(used_gpu(cpus.plan(), 0, kUuids[1]) == "1");
}

TEST_CASE("the GPUs of all workers are known if each worker has one") {
  CHECK(gpus_of_workers(Machine().sees("2,0").plan()) == std::vector<std::string>{"2", "0"});
  CHECK(has_pair_of_gpus(Machine().sees("2,0").plan()));
  Machine one;
  one.options.nproc_per_node = 1;
  CHECK_FALSE(has_pair_of_gpus(one.plan()));
  Machine cpus;
  cpus.options.backend = "gloo";
  cpus.options.nproc_per_node = 8;
  CHECK(gpus_of_workers(cpus.plan()).empty());
  CHECK_FALSE(has_pair_of_gpus(cpus.plan()));
}

TEST_CASE("the warning about other GPUs names the ranks, the likely reason and a remedy") {
  const std::string begin =
      "rank 4 uses GPU 1 (GPU-" + kUuids[1] + "), but the plan gives it GPU 0 (GPU-" + kUuids[0] + ")";
  Machine machine;
  const auto warning = [](const Machine& on) { return describe_other_gpus(on.plan(), 4, {{0, kUuids[1]}}); };
  CHECK(warning(machine) == begin +
                                ". CUDA_DEVICE_ORDER is not PCI_BUS_ID, so CUDA counts the fastest GPU first. Export "
                                "CUDA_DEVICE_ORDER=PCI_BUS_ID.");
  CHECK(describe_other_gpus(machine.plan(), 4, {{0, kUuids[1]}, {1, kUuids[0]}})
            .starts_with(begin + "; rank 5 uses another GPU, too. "));
  machine.has("CUDA_DEVICE_ORDER=PCI_BUS_ID").options.numa_binding = NumaBinding::node;
  CHECK(warning(machine).starts_with(begin + ". The program or a wrapper may have changed CUDA_VISIBLE_DEVICES"));
  CHECK(warning(machine).ends_with(" The CPUs of --numa-binding are near the planned GPUs."));
  machine.has("SLURM_JOB_ID=7").sees("0,1");
  CHECK(warning(machine).starts_with(begin + ". A control group of Slurm probably hides some GPUs, so that "
                                             "CUDA_VISIBLE_DEVICES=0,1 counts only the others."));
}
