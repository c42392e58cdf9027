// What the launcher makes of the proof beside workers, and when it makes none. The proof itself is in
// integration/gpu_hang_test.py.
#include "launcher/run/watchdog/evidence/proof_beside.h"

#include <chrono>
#include <filesystem>
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

TEST_CASE("a worker uses a GPU if it has a device file of one open") {
  const TemporaryDirectory proc;
  const auto opens = [&](int pid, const std::string& file) {
    const std::string folder = proc.path() + "/" + std::to_string(pid) + "/fd";
    std::filesystem::create_directories(folder);
    std::filesystem::create_symlink(file, folder + "/3");
  };
  opens(1, "/dev/null");
  opens(2, "/dev/nvidiactl");
  opens(3, "/dev/nvidia0");
  const auto use = [&](std::vector<pid_t> pids) { return use_gpus(pids, proc.path()); };
  CHECK_FALSE(use({}));
  CHECK_FALSE(use({1, 2, 7}));
  CHECK(use({1, 2, 3}));
}

TEST_CASE("nothing is proved beside workers that share a context") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/control") << "";
  LaunchPlan with_mps;
  with_mps.inherited_environment = {"CUDA_MPS_PIPE_DIRECTORY=" + directory.path()};
  net::EventLoop loop;
  ProofBeside proof(loop);
  doctor::Findings all;
  const auto done = [&](const doctor::Findings& findings) { all.insert(all.end(), findings.begin(), findings.end()); };
  proof.start(with_mps, done);
  proof.start(with_mps, done);  // only the first call counts
  REQUIRE(all.size() == 1);
  CHECK(all[0].grade == doctor::Grade::unknown);
  CHECK_THAT(all[0].text, Catch::Contains("MPS"));
  CHECK_FALSE(proof.is_running());
}

TEST_CASE("a proof beside workers has one answer, and none after its end") {
  const TemporaryDirectory directory;
  LaunchPlan without_mps;
  without_mps.inherited_environment = {"CUDA_MPS_PIPE_DIRECTORY=" + directory.path()};
  for (const bool ends_early : {false, true}) {
    net::EventLoop loop;
    ProofBeside proof(loop);
    int answers = 0;
    proof.start(without_mps, [&](const doctor::Findings& findings) {
      CHECK_FALSE(findings.empty());
      ++answers;
      loop.stop();
    });
    const int at_once = answers;  // 1 if there is no ddplaunch beside this program
    if (ends_early) proof.end();
    const auto limit = loop.at(std::chrono::steady_clock::now() + (ends_early ? 500ms : 20s), [&] { loop.stop(); });
    loop.run();
    CHECK(answers == (ends_early ? at_once : 1));
    CHECK_FALSE(proof.is_running());
  }
}
