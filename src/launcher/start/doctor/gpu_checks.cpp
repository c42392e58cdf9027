#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "launcher/start/doctor/checks.h"

namespace ddp::launcher::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraryFolders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                                           "/usr/lib", "/usr/local/nvidia/lib64"};
constexpr std::string_view kDevices = "/sys/bus/pci/devices/";

// Returns the first word like "550.54.15".
std::string version_in(const std::string& text) {
  for (const std::string& word : base::words(text, " \t\n")) {
    const bool is_version = word.find('.') != std::string::npos &&
                            word.find_first_not_of("0123456789.") == std::string::npos && word.front() != '.';
    if (is_version) return word;
  }
  return "";
}

std::string driver_version(const Node& node) {
  return version_in(node.text("/proc/driver/nvidia/version").substr(0, 200));
}

// Returns the NVIDIA GPUs on the PCI bus, with or without a driver.
std::vector<std::string> gpus_on_bus(const Node& node) {
  std::vector<std::string> found;
  for (const std::string& address : node.names(std::string(kDevices))) {
    const std::string device = std::string(kDevices) + address;
    const bool is_display = node.line(device + "/class").starts_with("0x03");
    if (is_display && node.line(device + "/vendor") == "0x10de") found.push_back(address);
  }
  return found;
}

std::string model_of(const Node& node, const std::string& address) {
  for (const std::string& line : base::split(node.text("/proc/driver/nvidia/gpus/" + address + "/information"), '\n')) {
    if (line.starts_with("Model:")) return base::trimmed(line.substr(6));
  }
  return "GPU";
}

std::string gpu_name(const GpuFacts& gpu) {
  return "GPU " + std::to_string(gpu.index) + " (" + gpu.pci_address + ")";
}

// Returns the addresses of the bridges between the device and the processor, the nearest first.
std::vector<std::string> bridges_above(const Node& node, const std::string& address) {
  std::error_code ignored;
  fs::path path = fs::canonical(node.root + std::string(kDevices) + address, ignored);
  std::vector<std::string> bridges;
  for (path = path.parent_path(); path.has_relative_path(); path = path.parent_path()) {
    const std::string name = path.filename();
    if (name.size() < 12 || name[4] != ':' || name[7] != ':') break;  // "pci0000:00", above all bridges
    bridges.push_back(name);
  }
  return bridges;
}

// Reads the control word of Access Control Services from a configuration space (PCI Express Base Specification, section
// 7.7.11: extended capability 0x000D, control register at +6). Returns std::nullopt without it, or if only the first 64
// bytes can be read, which is all that a user without rights gets.
std::optional<unsigned> acs_control(const std::string& config) {
  const auto word = [&](std::size_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>(config[at])) |
           static_cast<unsigned>(static_cast<unsigned char>(config[at + 1])) << 8;
  };
  std::size_t at = 0x100;
  for (int steps = 0; steps < 64 && at >= 0x100 && at + 8 <= config.size(); ++steps) {
    if (word(at) == 0x000d) return word(at + 6);
    at = word(at + 2) >> 4;
  }
  return std::nullopt;
}

// Redirection of requests and of completions, and forwarding upstream: writes to a peer go to the processor.
constexpr unsigned kRedirects = 0x4 | 0x8 | 0x10;

std::string iommu_type(const Node& node, const std::string& address) {
  return node.line(std::string(kDevices) + address + "/iommu_group/type");
}

bool runs_on_arm(const Node& node) {
  return node.text("/proc/cpuinfo").find("CPU implementer") != std::string::npos;
}

// Returns whether this process sees the processes of the node, as it does outside of containers.
bool sees_all_processes(const Node& node) {
  return node.line("/proc/1/comm") == "systemd";
}

bool runs(const Node& node, const std::string& program) {
  for (const std::string& name : node.names("/proc")) {
    const bool is_pid = name.find_first_not_of("0123456789") == std::string::npos;
    // The kernel cuts names to 15 bytes.
    if (is_pid && node.line("/proc/" + name + "/comm") == program.substr(0, 15)) return true;
  }
  return false;
}

}  // namespace

Findings check_gpus(const Node& node) {
  const std::vector<std::string> on_bus = gpus_on_bus(node);
  const std::vector<std::string> of_driver = node.names("/proc/driver/nvidia/gpus");
  if (of_driver.empty() && !node.exists("/proc/driver/nvidia/version")) {
    if (node.exists("/dev/dxg")) return {ok("WSL2 shows its GPUs only to the driver's library")};
    if (on_bus.empty()) return {ok("there is no NVIDIA GPU")};
    return {
        fail(base::counted(std::ssize(on_bus), "NVIDIA GPU", "is", "are") + " on the PCI bus, but no driver is loaded",
             "modprobe nvidia, or install the driver. nvidia-smi says more")};
  }
  if (node.gpus.empty()) {
    return {fail("the driver has " + base::counted(std::ssize(of_driver), "GPU") +
                     ", but there are no device files that this process may use",
                 "docker run --gpus all. In Kubernetes: resources.limits nvidia.com/gpu. In Slurm: --gres=gpu:N")};
  }
  if (!node.exists("/dev/nvidia-uvm")) {
    return {fail("/dev/nvidia-uvm is missing, so CUDA cannot begin", "nvidia-modprobe -u -c=0, as root on the host")};
  }
  if (node.workers > std::ssize(node.gpus)) {
    return {fail(base::counted(node.workers, "worker") + " on " + base::counted(std::ssize(node.gpus), "GPU") +
                     ", and NCCL refuses two ranks on one GPU",
                 "--nproc-per-node=" + std::to_string(node.gpus.size()) + ", or ask for more GPUs")};
  }
  return {ok(base::counted(std::ssize(node.gpus), "GPU") + ": " + model_of(node, node.gpus.front().pci_address))};
}

Findings check_driver(const Node& node) {
  const std::string version = driver_version(node);
  if (version.empty()) return {ok("no NVIDIA driver is loaded")};
  std::vector<std::string> libraries;
  for (const char* folder : kLibraryFolders) {
    for (const std::string& name : node.names(folder)) {
      constexpr std::string_view kStem = "libnvidia-ml.so.";
      if (!name.starts_with(kStem) || name == "libnvidia-ml.so.1") continue;
      libraries.push_back(name.substr(kStem.size()));
      if (libraries.back() == version) return {ok("driver " + version)};
    }
  }
  if (libraries.empty()) {
    return {unknown("driver " + version + ", and its libraries are in none of the usual folders",
                    "nvidia-smi must work here. In a container: the NVIDIA Container Toolkit")};
  }
  return {fail("the driver in the kernel is " + version + ", but its libraries are " + base::join(libraries, ", ") +
                   ", so each program ends with \"driver/library version mismatch\"",
               "reboot, or rmmod and modprobe nvidia after an update")};
}

Findings check_pci_links(const Node& node) {
  Findings findings;
  std::string shown;
  for (const GpuFacts& gpu : node.gpus) {
    const auto width = [&](const std::string& address, const char* file) {
      return base::parse_integer(node.line(std::string(kDevices) + address + "/" + file), 1, 64);
    };
    const auto now = width(gpu.pci_address, "current_link_width");
    auto most = width(gpu.pci_address, "max_link_width");
    if (!now || !most) continue;
    // A GPU in a narrower slot has what the slot has.
    if (const auto above = bridges_above(node, gpu.pci_address); !above.empty())
      most = std::min(*most, width(above.front(), "max_link_width").value_or(*most));
    shown = "x" + std::to_string(*now) + ", at most " +
            node.line(std::string(kDevices) + gpu.pci_address + "/max_link_speed");
    if (*now >= *most) continue;
    findings.push_back(warn(gpu_name(gpu) + " has " + std::to_string(*now) + " of " + std::to_string(*most) +
                                " PCIe lanes, so its transfers are slower",
                            "reseat the card or its riser. lspci -vvs " + gpu.pci_address + " shows LnkSta"));
  }
  if (!findings.empty()) return findings;
  if (shown.empty()) return {ok("no PCIe link of a GPU is shown")};
  return {ok("the GPUs' PCIe links are complete (" + shown + ")")};
}

Findings check_peer_access(const Node& node) {
  if (node.gpus.size() < 2) return {ok("no GPU has a peer here")};
  Findings findings;
  std::vector<std::string> redirecting;
  bool is_read = false;
  for (const GpuFacts& gpu : node.gpus) {
    for (const std::string& bridge : bridges_above(node, gpu.pci_address)) {
      const std::string config = node.text(std::string(kDevices) + bridge + "/config");
      is_read = is_read || config.size() > 64;
      const auto control = acs_control(config);
      const bool is_known = std::ranges::find(redirecting, bridge) != redirecting.end();
      if (control && (*control & kRedirects) != 0 && !is_known) redirecting.push_back(bridge);
    }
  }
  // A virtual machine needs ACS. Its GPUs reach each other by address translation services instead.
  if (!redirecting.empty() && !node.is_virtual()) {
    findings.push_back(
        warn("PCIe Access Control Services send what one GPU writes to another through the processor (" +
                 base::join(redirecting, ", ") + "). NCCL may then hang or compute wrong sums",
             "setpci -s " + redirecting.front() +
                 " ECAP_ACS+0x6.w=0000 for each of them after each boot, or disable ACS in the BIOS. Until then: "
                 "NCCL_P2P_DISABLE=1"));
  }
  const std::string type = iommu_type(node, node.gpus.front().pci_address);
  // On Arm, NVLink-C2C and its address translation are made for that.
  if (type.starts_with("DMA") && !node.is_virtual() && !runs_on_arm(node)) {
    findings.push_back(warn("the IOMMU translates what the GPUs write (" + type +
                                "), so writes of one GPU to another may be slow or never arrive",
                            "iommu=pt on the kernel's command line, or disable VT-d or AMD-Vi in the BIOS. Until "
                            "then: NCCL_P2P_DISABLE=1"));
  }
  if (!findings.empty()) return findings;
  if (!is_read && !node.is_root) {
    return {unknown("only root may read whether PCIe Access Control Services redirect writes between GPUs",
                    "sudo ddplaunch doctor")};
  }
  return {ok("nothing on the PCIe paths redirects writes between GPUs")};
}

Findings check_fabric(const Node& node) {
  const bool has_switch =
      node.exists("/dev/nvidia-nvswitchctl") || !node.names("/proc/driver/nvidia-nvswitch/devices").empty();
  if (has_switch && sees_all_processes(node) && !runs(node, "nv-fabricmanager")) {
    return {fail("there are NVSwitches, but nv-fabricmanager does not run, so CUDA ends with error 802",
                 "systemctl start nvidia-fabricmanager, with the version of the driver")};
  }
  const bool spans_nodes = std::ranges::any_of(node.gpus, [&](const GpuFacts& gpu) {
    const std::string model = model_of(node, gpu.pci_address);
    return model.find("GB200") != std::string::npos || model.find("GB300") != std::string::npos;
  });
  if (spans_nodes && node.nodes > 1 && node.names("/dev/nvidia-caps-imex-channels").empty()) {
    return {fail("NVLink reaches other nodes here, but there is no IMEX channel, so NCCL cannot use it",
                 "modprobe nvidia NVreg_CreateImexChannel0=1, then systemctl start nvidia-imex. nvidia-imex-ctl -N "
                 "shows the nodes")};
  }
  return {ok(has_switch ? "NVSwitches, with their fabric manager" : "no fabric that needs a service")};
}

}  // namespace ddp::launcher::doctor
