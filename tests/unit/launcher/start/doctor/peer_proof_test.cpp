// The proof of peer access over GPUs in software, which have the faults of broken machines (FAKE_GPU_PEERS).
#include "launcher/start/doctor/peer_proof.h"

#include <cstdlib>

#include "support/catch.h"
#include "support/paths.h"

using namespace ddp::launcher;
using namespace ddp::launcher::doctor;

namespace {

Findings findings_with(const char* fault, std::size_t gpus = 2) {
  ::setenv("FAKE_GPU_PEERS", fault, 1);
  Node node;
  node.gpus.resize(gpus);
  node.cuda_library = ddp::test::fake_gpu_directory() + "/libcuda.so.1";
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
    {"mirror", "writes never arrive, although GPU 0 reads its own back. Through host memory, all arrive"},
    {"wrong_word", "writes by a kernel: 131 of 131072 words are wrong on their owner. Through host memory, all arrive"},
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
    CHECK(findings.front().text == "GPU 0 and GPU 1: all writes, reads, copies and flags arrive in order");
  }
}

TEST_CASE("each fault of peer access is named, with the direction and what host memory shows", "[slow]") {
  for (const Fault& fault : kFaults) {
    DYNAMIC_SECTION(fault.name) {
      const Findings findings = findings_with(fault.name);
      REQUIRE_FALSE(findings.empty());
      CHECK(findings.front().grade == Grade::fail);
      CHECK_THAT(findings.front().text, Catch::StartsWith("GPU 0 → GPU 1: "));
      CHECK_THAT(findings.front().text, Catch::Contains(fault.words));
      CHECK_THAT(findings.front().remedy, Catch::StartsWith("NCCL_P2P_DISABLE=1"));
    }
  }
}

TEST_CASE("both directions of each pair are tried, and each pair has a finding", "[slow]") {
  const Findings broken = findings_with("wrong_word");
  REQUIRE(broken.size() == 2);
  CHECK_THAT(broken.back().text, Catch::StartsWith("GPU 1 → GPU 0: "));
  const Findings pairs = findings_with("", 3);
  REQUIRE(pairs.size() == 3);
  CHECK_THAT(pairs.back().text, Catch::StartsWith("GPU 1 and GPU 2: "));
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
        Finding{"peer-writes", Grade::ok, "GPU 0 and GPU 1 have no peer access, so NCCL goes through host memory", ""});
}

TEST_CASE("the proof without a driver, or with fewer GPUs than the kernel shows, is unknown") {
  Node node;
  CHECK(check_peer_writes(node).front().grade == Grade::ok);  // nothing to prove
  node.gpus.resize(2);
  node.cuda_library = "libnone.so";
  CHECK(check_peer_writes(node).front().text == "libnone.so cannot be opened, or is too old");
  ::setenv("FAKE_GPU_COUNT", "1", 1);
  CHECK(findings_with("").front().text == "GPU 0 and GPU 1: CUDA shows only 1 GPU");
  ::setenv("FAKE_GPU_COUNT", "0", 1);
  CHECK(findings_with("").front().grade == Grade::unknown);
  ::unsetenv("FAKE_GPU_COUNT");
}
