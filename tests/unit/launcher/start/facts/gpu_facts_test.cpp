#include "launcher/start/facts/gpu_facts.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

// Makes a root folder with the files that the NVIDIA driver would show.
class Machine {
 public:
  void device_file(const std::string& name) { write("dev/" + name, ""); }
  void driver_entry(const std::string& address, const std::string& uuid, const std::string& minor) {
    write("proc/driver/nvidia/gpus/" + address + "/information",
          "Model: \t\t NVIDIA H200\nIRQ:   \t\t 57\nGPU UUID: \t " + uuid + "\nBus Location: \t " + address +
              "\nDevice Minor: \t " + minor + "\n");
  }
  void numa_node(const std::string& address, int node) {
    write("sys/bus/pci/devices/" + address + "/numa_node", std::to_string(node) + "\n");
  }
  std::vector<GpuFacts> gpus() const { return find_gpus(directory_.path()); }
  std::vector<GpuFacts> gpus_without(const std::set<std::string>& denied) const {
    return find_gpus(directory_.path(),
                     [&](const std::string& file) { return denied.contains(std::filesystem::path(file).filename()); });
  }
  bool has_uncounted() const { return has_uncounted_gpus(directory_.path(), find_gpus(directory_.path())); }

 private:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(directory_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("a node without the NVIDIA driver has no GPUs") {
  CHECK(Machine().gpus().empty());
}

TEST_CASE("GPUs are identified by UUID, address and NUMA node and numbered by address") {
  Machine machine;
  machine.driver_entry("0000:b1:00.0", "GPU-bb", "0");
  machine.driver_entry("0000:17:00.0", "GPU-aa", "1");
  machine.device_file("nvidia0");
  machine.device_file("nvidia1");
  machine.device_file("nvidiactl");
  machine.device_file("nvidia-uvm");
  machine.numa_node("0000:b1:00.0", 1);
  machine.numa_node("0000:17:00.0", -1);
  CHECK(machine.gpus() ==
        std::vector<GpuFacts>{{0, "GPU-aa", "0000:17:00.0", std::nullopt, 1}, {1, "GPU-bb", "0000:b1:00.0", 1, 0}});
}

TEST_CASE("only GPUs with a device file count in a container") {
  Machine machine;
  machine.driver_entry("0000:17:00.0", "GPU-aa", "0");
  machine.driver_entry("0000:31:00.0", "GPU-bb", "1");
  machine.driver_entry("0000:b1:00.0", "GPU-cc", "2");
  machine.device_file("nvidia1");
  REQUIRE(machine.gpus().size() == 1);
  CHECK(machine.gpus()[0].uuid == "GPU-bb");
  CHECK(machine.gpus()[0].index == 0);
}

TEST_CASE("GPUs are counted from device files or from /proc, whichever is available") {
  Machine files;
  files.device_file("nvidia0");
  files.device_file("nvidia3");
  CHECK(files.gpus() == std::vector<GpuFacts>{{0, "", "", std::nullopt, 0}, {1, "", "", std::nullopt, 3}});
  Machine driver;
  driver.driver_entry("0000:17:00.0", "GPU-aa", "0");
  CHECK(driver.gpus().size() == 1);
}

TEST_CASE("a GPU that a control group denies is not counted") {
  Machine machine;
  machine.driver_entry("0000:17:00.0", "GPU-aa", "0");
  machine.driver_entry("0000:31:00.0", "GPU-bb", "1");
  machine.device_file("nvidia0");
  machine.device_file("nvidia1");
  const auto gpus = machine.gpus_without({"nvidia0"});
  REQUIRE(gpus.size() == 1);
  CHECK(gpus[0] == GpuFacts{0, "GPU-bb", "0000:31:00.0", std::nullopt, 1});
  CHECK(machine.gpus_without({"nvidia0", "nvidia1"}).empty());
  CHECK(machine.gpus().size() == 2);
}

TEST_CASE("only a control group makes a device denied") {
  CHECK_FALSE(is_denied_by_cgroup("/dev/null"));
  CHECK_FALSE(is_denied_by_cgroup("/dev/there_is_no_such_file"));
}

TEST_CASE("a GPU that the driver excludes is not counted") {
  Machine machine;
  machine.driver_entry("0000:17:00.0", "GPU-aa", "0\nGPU Excluded: \t Yes");
  machine.driver_entry("0000:31:00.0", "GPU-bb", "1\nGPU Excluded: \t No");
  machine.device_file("nvidia0");
  machine.device_file("nvidia1");
  REQUIRE(machine.gpus().size() == 1);
  CHECK(machine.gpus()[0].uuid == "GPU-bb");
}

TEST_CASE("a WSL2 node has GPUs that only the driver's library can count") {
  Machine machine;
  CHECK_FALSE(machine.has_uncounted());
  machine.device_file("dxg");
  CHECK(machine.has_uncounted());
  machine.device_file("nvidia0");
  CHECK_FALSE(machine.has_uncounted());
}

TEST_CASE("a UUID that the driver does not know yet stays unknown") {
  Machine machine;
  machine.driver_entry("0000:17:00.0", std::string("GPU-") + std::string(8, '?'), "0");
  REQUIRE(machine.gpus().size() == 1);
  CHECK(machine.gpus()[0].uuid.empty());
}
