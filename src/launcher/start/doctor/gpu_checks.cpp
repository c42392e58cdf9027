#include <algorithm>
#include <filesystem>
#include <initializer_list>

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
  const std::string model = node.field("/proc/driver/nvidia/gpus/" + address + "/information", "Model");
  return model.empty() ? "GPU" : model;
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
  if (!node.gpus_failure.empty())
    return {fail("the files of the driver cannot be read: " + node.gpus_failure,
                 "dmesg | grep -i -e nvrm -e xid, then a reboot")};
  const std::vector<std::string> of_driver = node.names("/proc/driver/nvidia/gpus");
  if (of_driver.empty() && !node.exists("/proc/driver/nvidia/version")) {
    if (node.exists("/dev/dxg")) return {ok("WSL2 shows its GPUs only to the driver's library")};
    const std::vector<std::string> on_bus = gpus_on_bus(node);
    if (on_bus.empty()) return {ok("there is no NVIDIA GPU")};
    return {
        fail(base::counted(std::ssize(on_bus), "NVIDIA GPU", "is", "are") + " on the PCI bus, but no driver is loaded",
             "modprobe nvidia, or install the driver. nvidia-smi says more")};
  }
  const std::vector<std::string> files = node.names("/dev");
  const bool has_files = std::ranges::any_of(files, [](const std::string& name) {
    return name.starts_with("nvidia") && name.find_first_not_of("0123456789", 6) == std::string::npos &&
           name.size() > 6;
  });
  if (node.gpus.empty() || !has_files) {
    return {fail("the driver has " + base::counted(std::ssize(of_driver), "GPU") +
                     ", but there are no device files that this process may use",
                 "docker run --gpus all. In Kubernetes: resources.limits nvidia.com/gpu. In Slurm: --gres=gpu:N")};
  }
  // The first program that uses CUDA makes the file with this program, outside of containers.
  const bool is_made_later = node.sees_all_processes && node.exists("/usr/bin/nvidia-modprobe");
  if (!node.exists("/dev/nvidia-uvm") && !is_made_later) {
    return {fail("/dev/nvidia-uvm is missing, so CUDA cannot begin", "nvidia-modprobe -u -c=0, as root on the host")};
  }
  const auto visible = std::ssize(node.visible());
  if (visible > 0 && node.workers > visible) {
    return {fail(base::counted(node.workers, "worker") + " on " + base::counted(visible, "GPU") +
                     ", and NCCL refuses two ranks on one GPU",
                 "--nproc-per-node=" + std::to_string(visible) + ", or ask for more GPUs")};
  }
  return {ok(base::counted(std::ssize(node.gpus), "GPU") + ": " + model_of(node, node.gpus.front().pci_address))};
}

Findings check_driver(const Node& node) {
  const std::string version = driver_version(node);
  if (version.empty())
    return {ok(node.exists("/dev/dxg") ? "WSL2 has the driver of Windows" : "no NVIDIA driver is loaded")};
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
               "a reboot, because programs still use the old one")};
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
    constexpr std::int64_t kNoDevice = 63;  // all bits set, as a device reads that is no longer there
    if (*now == kNoDevice) {
      findings.push_back(fail(gpu_name(gpu) + " no longer answers on PCIe", "dmesg | grep -i xid, then a reboot"));
      continue;
    }
    if (*now >= *most) continue;
    findings.push_back(warn(gpu_name(gpu) + " has " + std::to_string(*now) + " of " + std::to_string(*most) +
                                " PCIe lanes, so its transfers are slower",
                            "reseat the card or its riser. lspci -vvs " + gpu.pci_address + " shows LnkSta"));
  }
  if (!findings.empty()) return findings;
  if (node.gpus.empty()) return {ok("there is no GPU with a PCIe link")};
  if (shown.empty()) return {unknown("/sys does not show the PCIe links of the GPUs")};
  return {ok("the GPUs' PCIe links are complete (" + shown + ")")};
}

Findings check_peer_access(const Node& node) {
  constexpr const char* kProof = "ddplaunch doctor --deep proves whether they arrive";
  if (node.gpus.size() < 2) return {ok("no GPU has a peer here")};
  if (node.has_nvswitch()) return {ok("the GPUs reach each other over NVSwitches, and not over PCIe")};
  // A virtual machine shows other bridges than those on the path, and needs these services. Arm has ways of its own.
  if (node.is_virtual() || runs_on_arm(node))
    return {unknown("what redirects writes between GPUs cannot be judged from files on this machine", kProof)};
  std::vector<std::string> redirecting;
  bool is_read = true;
  for (const GpuFacts& gpu : node.gpus) {
    std::vector<std::string> bridges = bridges_above(node, gpu.pci_address);
    // What passes the root port goes to the processor anyway.
    if (!bridges.empty()) bridges.pop_back();
    for (const std::string& bridge : bridges) {
      constexpr std::size_t kWithoutExtended = 256;
      const std::string config = node.text(std::string(kDevices) + bridge + "/config");
      is_read = is_read && config.size() > kWithoutExtended;
      const auto control = acs_control(config);
      const bool is_known = std::ranges::find(redirecting, bridge) != redirecting.end();
      if (control && (*control & kRedirects) != 0 && !is_known) redirecting.push_back(bridge);
    }
  }
  if (!redirecting.empty()) {
    return {warn("PCIe Access Control Services send what one GPU writes to another through the processor (" +
                     base::join(redirecting, ", ") + "). NCCL may then hang or compute wrong sums",
                 "setpci -s " + redirecting.front() +
                     " ECAP_ACS+0x6.w=0000 for each of them after each boot, or disable ACS in the BIOS. Until then: "
                     "NCCL_P2P_LEVEL=NVL, which keeps NVLink")};
  }
  if (const std::string type = iommu_type(node, node.gpus.front().pci_address); type.starts_with("DMA")) {
    return {unknown(
        "the IOMMU translates what the GPUs write (" + type + "), and some machines lose writes to peers by that",
        std::string(kProof) + ". iommu=pt on the kernel's command line avoids it")};
  }
  if (!is_read) {
    return {unknown("PCIe Access Control Services can be read only by root, outside of containers",
                    "sudo -E \"$(command -v ddplaunch)\" doctor, on the host")};
  }
  return {ok("nothing on the PCIe paths redirects writes between GPUs")};
}

Findings check_fabric(const Node& node) {
  const auto is_any = [&](std::initializer_list<std::string_view> models) {
    return std::ranges::any_of(node.gpus, [&](const GpuFacts& gpu) {
      const std::string model = model_of(node, gpu.pci_address);
      return std::ranges::any_of(models, [&](std::string_view name) { return model.find(name) != std::string::npos; });
    });
  };
  const bool spans_nodes = is_any({"GB200", "GB300"});
  if (spans_nodes && node.nodes > 1 && node.names("/dev/nvidia-caps-imex-channels").empty()) {
    return {fail(
        "NVLink may reach other nodes here, but there is no IMEX channel, so NCCL ends with an error",
        "nvidia-imex-ctl -N, and a channel: mknod /dev/nvidia-caps-imex-channels/channel0 c MAJOR 0, with MAJOR from "
        "/proc/devices. Or NCCL_MNNVL_ENABLE=0")};
  }
  // The boards with B200 do not show their switches as those before did.
  const bool needs_manager = node.has_nvswitch() || (!spans_nodes && is_any({"B200", "B300"}));
  if (!needs_manager) return {ok("no fabric that needs a service")};
  if (runs(node, "nv-fabricmanager")) return {ok("the fabric manager of the NVSwitches runs")};
  if (!node.sees_all_processes || !node.has_nvswitch())
    return {unknown("it cannot be seen from here whether the fabric manager of the NVSwitches runs",
                    "systemctl is-active nvidia-fabricmanager, on the host")};
  return {fail("there are NVSwitches, but nv-fabricmanager does not run, so CUDA ends with error 802",
               "systemctl start nvidia-fabricmanager, with the version of the driver")};
}

}  // namespace ddp::launcher::doctor
