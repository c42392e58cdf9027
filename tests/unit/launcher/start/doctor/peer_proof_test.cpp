// The proof of peer access over GPUs in software, which have the faults of broken machines (FAKE_GPU_PEERS).
#include "launcher/start/doctor/peer_proof.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/paths.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using namespace ddp::launcher::doctor;

namespace {

// GPUs in software, of which NVML in software says that they have 80 GiB.
class Machine {
 public:
  explicit Machine(std::size_t gpus = 2) {
    std::ofstream file(directory_.path() + "/gpus");
    node.gpus.resize(gpus);
    for (std::size_t i = 0; i < gpus; ++i) {
      node.gpus[i].index = static_cast<int>(i);
      file << "GPU-" << i << " 0 0 - -\n";
    }
    node.cuda_library = ddp::test::fake_gpu_directory() + "/libcuda.so.1";
    node.nvml_library =
        (std::filesystem::path(ddp::test::bin_directory()).parent_path() / "fake_nvml/libnvidia-ml.so.1").string();
  }

  // `health` is of the second GPU.
  Findings findings(const char* fault = "", const char* health = "") const {
    ::setenv("FAKE_NVML", (directory_.path() + "/gpus").c_str(), 1);
    ::setenv("FAKE_NVML_HEALTH", health, 1);
    ::setenv("FAKE_GPU_PEERS", fault, 1);
    Findings findings = check_peer_writes(node);
    for (const char* name : {"FAKE_NVML", "FAKE_NVML_HEALTH", "FAKE_GPU_PEERS"}) ::unsetenv(name);
    return findings;
  }

  Node node;

 private:
  const TemporaryDirectory directory_;
};

Findings findings_with(const char* fault, std::size_t gpus = 2) {
  return Machine(gpus).findings(fault);
}

struct Fault {
  const char* name;
  const char* words;
};

// The words of the first finding, which is about GPU 0 → GPU 1.
constexpr Fault kFaults[] = {
    {"mirror", "writes never arrive, although the writer reads them back. Through host memory, all arrive"},
    {"wrong_word", "writes by a kernel: 132 of 131072 words are wrong on their owner. Through host memory, all arrive"},
    {"lost_flag", "a flag that is written after its data never arrives, which NCCL waits for"},
    {"lost_copy", "copies by the copy engine: 131072 of 131072 words are wrong on their owner"},
    {"hang", "writing does not end within 10.0 s. Through host memory, all arrive"},
};

}  // namespace

TEST_CASE("GPUs whose writes arrive are ok, also if they are slow", "[slow]") {
  for (const char* fault : {"", "slow"}) {
    CAPTURE(fault);
    const Findings findings = findings_with(fault);
    REQUIRE(findings.size() == 1);
    CHECK(findings.front().grade == Grade::ok);
    CHECK(findings.front().text == "GPU 0 ↔ GPU 1: all writes, reads, copies and flags arrive in order");
  }
}

TEST_CASE("each fault of peer access is named, with the direction and what host memory shows", "[slow]") {
  for (const Fault& fault : kFaults) {
    DYNAMIC_SECTION(fault.name) {
      const Findings findings = findings_with(fault.name);
      REQUIRE_FALSE(findings.empty());
      CHECK(findings.front().grade == Grade::fail);
      CHECK_THAT(findings.front().text, Catch::StartsWith("GPU 0 → GPU 1"));
      CHECK_THAT(findings.front().text, Catch::Contains(fault.words));
      CHECK_THAT(findings.front().remedy, Catch::StartsWith("NCCL_P2P_DISABLE=1"));
    }
  }
}

TEST_CASE("both directions of each pair are tried, and what is the same is one finding", "[slow]") {
  const Findings broken = findings_with("wrong_word");
  REQUIRE(broken.size() == 1);
  CHECK_THAT(broken.back().text, Catch::StartsWith("GPU 0 → GPU 1, GPU 1 → GPU 0: "));
  CHECK(broken.back().fallback == "NCCL_P2P_DISABLE=1");
  const Findings pairs = findings_with("", 3);
  REQUIRE(pairs.size() == 1);
  CHECK_THAT(pairs.back().text, Catch::StartsWith("GPU 0 ↔ GPU 1, GPU 0 ↔ GPU 2, GPU 1 ↔ GPU 2: all writes"));
  const Findings none = findings_with("none", 5);
  REQUIRE(none.size() == 1);
  CHECK_THAT(none.back().text, Catch::Contains("GPU 1 ↔ GPU 3 and 4 more: no peer access"));
}

TEST_CASE("nothing is proved without memory to spare, so that programs on the GPUs do not lack it") {
  Machine machine;
  const Finding lack = machine.findings("", "used=80400").at(0);
  CHECK(lack.grade == Grade::unknown);
  CHECK(lack.text ==
        "a GPU has 1.5 GiB free. The proof takes 600 MiB, and leaves 1 GiB to programs that use the GPUs");
  CHECK(machine.findings("", "used=80000").at(0).grade == Grade::ok);
  machine.node.environment = {"CUDA_VISIBLE_DEVICES=0"};  // the GPU that is full belongs to others
  CHECK(machine.findings("", "used=80400").at(0).grade == Grade::ok);
  machine.node.environment = {"CUDA_VISIBLE_DEVICES=MIG-1"};
  CHECK_THAT(machine.findings("mirror").at(0).text, Catch::Contains("GPU MIG-1 is a part of a GPU"));
  machine.node.environment = {"CUDA_VISIBLE_DEVICES=7"};
  CHECK(machine.findings("mirror").at(0).grade == Grade::unknown);
  machine.node.environment = {};
  machine.node.nvml_library = "libnone.so";
  CHECK_THAT(machine.findings("mirror").at(0).text,
             Catch::Contains("how much memory of the GPUs is free: libnone.so cannot be used"));
}

TEST_CASE("a GPU that stays busy leaves other pairs out, which are not to blame", "[slow]") {
  const Findings findings = findings_with("hang", 3);
  REQUIRE(findings.size() == 2);
  CHECK_THAT(findings[0].text, Catch::StartsWith("GPU 1 → GPU 2: writing does not end within 10.0 s"));
  CHECK(findings[1].grade == Grade::unknown);
  CHECK(findings[1].text == "2 pairs were not tried, because a GPU does not come to an end");
}

TEST_CASE("a single GPU is tried with its own memory") {
  const Findings findings = findings_with("", 1);
  REQUIRE(findings.size() == 1);
  CHECK(findings.front() ==
        Finding{"peer-writes", Grade::ok, "GPU 0: all writes, reads, copies and flags arrive in order", ""});
}

TEST_CASE("GPUs without peer access are ok, because NCCL does not use it") {
  const Findings findings = findings_with("none");
  REQUIRE(findings.size() == 1);
  CHECK(findings.front() ==
        Finding{"peer-writes", Grade::ok, "GPU 0 ↔ GPU 1: no peer access, so NCCL goes through host memory", ""});
}

TEST_CASE("the proof without a driver, or with fewer GPUs than the kernel shows, is unknown") {
  CHECK(check_peer_writes({}).front().grade == Grade::ok);  // nothing to prove
  Machine machine;
  machine.node.cuda_library = "libnone.so";
  CHECK(machine.findings().front().text == "GPU 0 ↔ GPU 1: libnone.so cannot be opened, or is too old");
  ::setenv("FAKE_GPU_COUNT", "1", 1);
  CHECK(findings_with("").front().text == "GPU 0 ↔ GPU 1: CUDA shows only 1 GPU");
  ::setenv("FAKE_GPU_COUNT", "0", 1);
  CHECK(findings_with("").front().text == "GPU 0 ↔ GPU 1: it could not be checked: cuInit returns CUDA error 100");
  ::unsetenv("FAKE_GPU_COUNT");
  machine.node.gpus.clear();
  machine.node.gpus_failure = "no answer within 4.0 s";
  CHECK(machine.findings().front().grade == Grade::unknown);
}
