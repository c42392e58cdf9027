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

Node node_with(std::size_t gpus) {
  Node node;
  node.gpus.resize(gpus);
  for (std::size_t i = 0; i < gpus; ++i) node.gpus[i].index = static_cast<int>(i);
  node.cuda_library = ddp::test::fake_gpu_directory() + "/libcuda.so.1";
  return node;
}

Findings findings_with(const char* fault, std::size_t gpus = 2) {
  ::setenv("FAKE_GPU_PEERS", fault, 1);
  const Node node = node_with(gpus);
  Findings findings = check_peer_writes(node);
  ::unsetenv("FAKE_GPU_PEERS");
  return findings;
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
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/gpus") << "GPU-a 0 0 - -\nGPU-b 0 0 - -\n";
  ::setenv("FAKE_NVML", (directory.path() + "/gpus").c_str(), 1);
  Node node = node_with(2);
  node.nvml_library =
      (std::filesystem::path(ddp::test::bin_directory()).parent_path() / "fake_nvml/libnvidia-ml.so.1").string();
  const auto proved = [&](const char* troubles) {
    ::setenv("FAKE_NVML_HEALTH", troubles, 1);  // of the second GPU, which has 80 GiB
    return check_peer_writes(node).at(0);
  };
  const Finding lack = proved("used=80400");
  CHECK(lack.grade == Grade::unknown);
  CHECK(lack.text ==
        "a GPU has 1.5 GiB free, and the proof is made only with 1.6 GiB, so that programs which use the GPUs do not "
        "lack it");
  CHECK(proved("used=80000").grade == Grade::ok);
  node.environment = {"CUDA_VISIBLE_DEVICES=0"};  // the GPU that is full belongs to others
  CHECK(proved("used=80400").grade == Grade::ok);
  ::unsetenv("FAKE_NVML");
  ::unsetenv("FAKE_NVML_HEALTH");
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
  Node node;
  CHECK(check_peer_writes(node).front().grade == Grade::ok);  // nothing to prove
  node.gpus.resize(2);
  node.cuda_library = "libnone.so";
  CHECK(check_peer_writes(node).front().text == "libnone.so cannot be opened, or is too old");
  ::setenv("FAKE_GPU_COUNT", "1", 1);
  CHECK(findings_with("").front().text == "GPU 0 ↔ GPU 1: CUDA shows only 1 GPU");
  ::setenv("FAKE_GPU_COUNT", "0", 1);
  CHECK(findings_with("").front().grade == Grade::unknown);
  ::unsetenv("FAKE_GPU_COUNT");
}
