// The health of GPUs as a driver in software reports it (FAKE_NVML_HEALTH). The second of two GPUs has the trouble.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/start/doctor/run_checks.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using namespace ddp::launcher::doctor;
using namespace std::chrono_literals;

namespace {

// The library keeps nothing between calls, but each driver has a process of its own, as in the doctor.
Findings findings_with(const char* troubles, const std::string& gpus = "GPU-a 0 0 - -\nGPU-b 0 0 - -\n",
                       std::chrono::milliseconds limit = 10s) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/gpus";
  if (!gpus.empty()) std::ofstream(file) << gpus;
  ::setenv("FAKE_NVML", file.c_str(), 1);
  ::setenv("FAKE_NVML_HEALTH", troubles, 1);
  Node node;
  node.gpus.resize(2);
  node.nvml_library =
      (std::filesystem::path(ddp::test::bin_directory()).parent_path() / "fake_nvml/libnvidia-ml.so.1").string();
  const Check check = {"gpu-health", check_gpu_health, Grade::fail};
  Findings findings = run_checks(std::span(&check, 1), node, limit);
  ::unsetenv("FAKE_NVML");
  ::unsetenv("FAKE_NVML_HEALTH");
  return findings;
}

struct Trouble {
  const char* name;
  Grade grade;
  const char* words;
};

constexpr Trouble kTroubles[] = {
    {"ecc=2", Grade::fail, "GPU 1 has had 2 uncorrectable memory errors"},
    {"remap_pending=1", Grade::warn, "GPU 1 replaces a broken row"},
    {"remap_failed=1,remap_pending=1", Grade::fail, "GPU 1 could not replace a broken row"},
    {"slowdown=8", Grade::warn, "GPU 1 has lower clocks because of a hardware slowdown"},
    {"slowdown=96", Grade::warn, "its temperature (software)"},
    {"slowdown=128", Grade::warn, "the power brake"},
    {"used=4096", Grade::warn, "4.0 GiB of the memory of GPU 1 are used already"},
    {"mode=2", Grade::fail, "GPU 1 may not be used for computing"},
    {"action=1", Grade::fail, "GPU 1 needs a reset"},
    {"action=2", Grade::fail, "GPU 1 needs a reboot of the node"},
    {"fabric=2", Grade::fail, "error 802"},
    {"lost=1", Grade::fail, "GPU 1 is lost"},
};

}  // namespace

TEST_CASE("each trouble that the driver reports is named, with the GPU and what to do") {
  for (const Trouble& trouble : kTroubles) {
    DYNAMIC_SECTION(trouble.name) {
      const Findings findings = findings_with(trouble.name);
      REQUIRE(findings.size() == 1);
      CHECK(findings.front().grade == trouble.grade);
      CHECK_THAT(findings.front().text, Catch::Contains(trouble.words));
      CHECK_FALSE(findings.front().remedy.empty());
    }
  }
}

TEST_CASE("GPUs without a trouble are ok, also with rows replaced long ago, a power cap and a fabric that is ready") {
  for (const char* troubles : {"", "fabric=3", "used=100", "mode=3"}) {
    CAPTURE(troubles);
    const Findings findings = findings_with(troubles);
    REQUIRE(findings.size() == 1);
    CHECK(findings.front().grade == Grade::ok);
    CHECK(findings.front().text == "the driver reports no trouble of 2 GPUs");
  }
}

TEST_CASE("a driver that hangs fails the check, and one that cannot be opened leaves it unknown") {
  CHECK(findings_with("", "", 500ms).front().grade == Grade::fail);
  Node node;
  CHECK(check_gpu_health(node).front().grade == Grade::ok);  // there is no GPU
  node.gpus.resize(1);
  node.nvml_library = "libnone.so";
  CHECK(check_gpu_health(node).front().grade == Grade::unknown);
}

TEST_CASE("the bandwidth of a PCIe link follows from its speed and its lanes") {
  CHECK(pcie_rate("16.0 GT/s PCIe", 16) == Approx(31.5).epsilon(0.01));
  CHECK(pcie_rate("32.0 GT/s PCIe", 16) == Approx(63.0).epsilon(0.01));
  CHECK(pcie_rate("5.0 GT/s PCIe", 8) == Approx(4.0));
  CHECK(pcie_rate("", 16) == 0);
}

TEST_CASE("the doctor says how much GPUs exchange, and what a variable costs") {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/gpus";
  std::ofstream(file) << "GPU-a 0 0 - -\nGPU-b 0 0 - -\n";
  ::setenv("FAKE_NVML", file.c_str(), 1);
  Node node;
  node.root = directory.path();
  node.gpus.resize(2);
  for (std::size_t i = 0; i < 2; ++i) {
    node.gpus[i].pci_address = "0000:0" + std::to_string(i) + ":00.0";
    const std::string folder = directory.path() + "/sys/bus/pci/devices/" + node.gpus[i].pci_address;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/current_link_width") << "16\n";
    std::ofstream(folder + "/max_link_speed") << "32.0 GT/s PCIe\n";
  }
  node.nvml_library =
      (std::filesystem::path(ddp::test::bin_directory()).parent_path() / "fake_nvml/libnvidia-ml.so.1").string();
  const auto finding = [&](const char* links) {
    ::setenv("FAKE_NVML_LINKS", links, 1);
    const Findings findings = check_gpu_links(node);
    REQUIRE(findings.size() == 1);
    return findings.front();
  };
  CHECK(finding("0 0").text == "GPUs exchange at most 63 GB/s in each direction, over PCIe");
  CHECK(finding("6 18").text == "GPUs exchange at most 450 GB/s in each direction, over NVLink");
  CHECK(finding("7 18").text == "GPUs exchange at most 900 GB/s in each direction, over NVLink");
  CHECK(finding("4 12").text == "GPUs exchange at most 300 GB/s in each direction, over NVLink");
  node.environment = {"NCCL_P2P_DISABLE=1"};
  const Finding off = finding("6 18");
  CHECK(off.grade == Grade::warn);
  CHECK(off.text == "NCCL_P2P_DISABLE=1: data go over PCIe, 63 GB/s in each direction at most, in place of NVLink, 450 GB/s");
  CHECK(finding("0 0").grade == Grade::ok);
  ::unsetenv("FAKE_NVML");
  ::unsetenv("FAKE_NVML_LINKS");
}
