// What the launcher makes of the proof beside workers, and when it makes none. The proof itself is in
// integration/gpu_hang_test.py.
#include "launcher/run/watchdog/evidence/proof_beside.h"

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

TEST_CASE("the findings of the doctor are read from its output, and other output is no proof") {
  const std::string output =
      R"({"exit_code": 2, "nodes": [{"node": 0, "findings": [{"check": "peer-writes", "grade": "fail", "text": "lost",)"
      R"( "remedy": "x", "fallback": "NCCL_P2P_DISABLE=1"}]}]})";
  CHECK(findings_in(output) ==
        doctor::Findings{{"peer-writes", doctor::Grade::fail, "lost", "x", "NCCL_P2P_DISABLE=1"}});
  for (const char* bad : {"", "garbage", "{}", R"({"nodes": []})", R"({"nodes": [{"findings": 7}]})"}) {
    CAPTURE(bad);
    const doctor::Findings findings = findings_in(bad);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].check == "peer-writes");
    CHECK(findings[0].grade == doctor::Grade::unknown);
  }
}

TEST_CASE("nothing is proved beside workers whose GPU memory is not known, or that share a context") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/control") << "";
  LaunchPlan with_mps;
  with_mps.inherited_environment = {"CUDA_MPS_PIPE_DIRECTORY=" + directory.path()};
  for (const bool driver_answers : {false, true}) {
    net::EventLoop loop;
    ProofBeside proof(loop);
    doctor::Findings all;
    const auto done = [&](const doctor::Findings& findings) {
      all.insert(all.end(), findings.begin(), findings.end());
    };
    proof.start(driver_answers, with_mps, done);
    proof.start(driver_answers, with_mps, done);  // only the first call counts
    REQUIRE(all.size() == 1);
    CHECK(all[0].grade == doctor::Grade::unknown);
    CHECK_THAT(all[0].text, Catch::Contains(driver_answers ? "MPS" : "how much memory of the GPUs is free"));
  }
}

TEST_CASE("a proof beside workers has one answer, and none after its end") {
  const TemporaryDirectory directory;
  LaunchPlan without_mps;
  without_mps.inherited_environment = {"CUDA_MPS_PIPE_DIRECTORY=" + directory.path()};
  for (const bool ends_early : {false, true}) {
    net::EventLoop loop;
    ProofBeside proof(loop);
    int answers = 0;
    proof.start(true, without_mps, [&](const doctor::Findings& findings) {
      CHECK_FALSE(findings.empty());
      ++answers;
      loop.stop();
    });
    const int at_once = answers;  // 1 if there is no ddplaunch beside this program
    if (ends_early) proof.end();
    const auto limit = loop.at(std::chrono::steady_clock::now() + (ends_early ? 500ms : 20s), [&] { loop.stop(); });
    loop.run();
    CHECK(answers == (ends_early ? at_once : 1));
  }
}
