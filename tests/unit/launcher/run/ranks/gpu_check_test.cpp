#include "launcher/run/ranks/gpu_check.h"

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

const std::string kUuids[] = {"aa11aa11-0000-0000-0000-000000000000", "ab22ab22-0000-0000-0000-000000000000"};

struct Checked {
  LaunchPlan plan;
  std::vector<std::string> warnings;
  std::vector<GpuFacts> later;  // what the driver shows once the GPUs are in use
  std::vector<RankView> ranks = std::vector<RankView>(2);
  std::optional<GpuCheck> check;

  Checked() {
    plan.node_has_gpus = true;
    for (int i = 0; i < 2; ++i) {
      GpuFacts gpu;
      gpu.index = i;
      gpu.uuid = "GPU-" + kUuids[i];
      gpu.pci_address = "0000:0" + std::to_string(i) + ":00.0";
      plan.node_gpus.push_back(gpu);
      plan.devices.emplace_back(std::to_string(i));
      plan.device_indices.emplace_back(i);
      ranks[static_cast<std::size_t>(i)].rank = 2 + i;
    }
    check.emplace(
        plan, 2,
        [this](const LogLine& line) {
          CHECK(line.level == LogLevel::warning);
          warnings.push_back(line.text);
        },
        [this] { return later; });
  }
  void uses(int local_rank, int gpu) { ranks[static_cast<std::size_t>(local_rank)].page.gpu_uuid = kUuids[gpu]; }
};

}  // namespace

TEST_CASE("ranks that use the planned GPUs cause no warning") {
  Checked job;
  job.check->compare(job.ranks);
  job.uses(0, 0);
  job.uses(1, 1);
  job.check->compare(job.ranks);
  job.check->finish(job.ranks);
  CHECK(job.warnings.empty());
}

TEST_CASE("one warning names all ranks that use other GPUs than planned") {
  Checked job;
  job.uses(0, 1);
  job.check->compare(job.ranks);
  CHECK(job.warnings.empty());
  job.uses(1, 0);
  for (int i = 0; i < 3; ++i) job.check->compare(job.ranks);
  job.check->finish(job.ranks);
  REQUIRE(job.warnings.size() == 1);
  CHECK(job.warnings[0].starts_with("rank 2 uses GPU 1 (GPU-" + kUuids[1] + "), but the plan gives it GPU 0"));
  CHECK(job.warnings[0].find("rank 3 uses another GPU, too") != std::string::npos);
}

TEST_CASE("UUIDs that the driver shows only after the start are compared as well") {
  Checked job;
  job.later = job.plan.node_gpus;
  for (GpuFacts& gpu : job.plan.node_gpus) gpu.uuid.clear();
  job.check->compare(job.ranks);
  job.uses(0, 1);
  job.check->finish(job.ranks);
  CHECK(job.warnings.size() == 1);
}

TEST_CASE("a GPU difference found at the end is reported then") {
  Checked job;
  job.uses(1, 0);
  job.check->finish(job.ranks);
  CHECK(job.warnings.size() == 1);
}
