// Makes machines for the checks of the doctor, as trees of the files of /proc, /sys, /dev and /etc.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "launcher/start/doctor/node.h"
#include "support/temporary_directory.h"

namespace ddp::launcher::doctor {

inline constexpr const char* kFirstGpu = "0000:17:00.0";
inline constexpr const char* kSecondGpu = "0000:18:00.0";
inline constexpr const char* kSwitch = "0000:16:00.0";  // the bridge above both

// A tree, and the facts of the node that no file shows.
struct Machine {
  std::map<std::string, std::string> files;
  Node node;
  FileSystem shared_memory{std::uint64_t{64} << 30, std::uint64_t{60} << 30};

  void set(const std::string& name, const std::string& value) { node.environment.push_back(name + "=" + value); }
  void remove(const std::string& prefix) {
    std::erase_if(files, [&](const auto& file) { return file.first.starts_with(prefix); });
  }
};

// The configuration space of a bridge with Access Control Services.
inline std::string bridge_config(unsigned char acs_control) {
  std::string config(4096, '\0');
  config[0x100] = 0x01;  // another capability first: Advanced Error Reporting, the next one is at 0x148
  config[0x102] = '\x81';
  config[0x103] = 0x14;
  config[0x148] = 0x0d;
  config[0x14a] = 0x01;
  config[0x14e] = static_cast<char>(acs_control);
  return config;
}

inline std::string gpu_information(const std::string& model, const std::string& uuid, int minor) {
  return "Model: \t\t " + model + "\nGPU UUID: \t " + uuid + "\nDevice Minor: \t " + std::to_string(minor) + "\n";
}

// A node of a cluster: 32 CPUs, 256 GB, one network, no GPU.
inline Machine plain_machine() {
  Machine machine;
  machine.files = {
      {"/proc/meminfo", "MemTotal: 263000000 kB\nMemAvailable: 250000000 kB\n"},
      {"/proc/self/status", "Name:\tdoctor\nCpus_allowed_list:\t0-31\n"},
      {"/proc/self/cgroup", "0::/user.slice\n"},
      {"/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"},
      {"/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme\n"},
      {"/proc/1/comm", "systemd\n"},
      {"/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"},
      {"/proc/sys/kernel/yama/ptrace_scope", "1\n"},
      {"/proc/net/route",
       "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
       "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
       "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"},
      {"/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/user.slice/pids.max", "max\n"},
      {"/sys/class/net/lo/operstate", "unknown\n"},
      {"/sys/class/net/eth0/operstate", "up\n"},
      {"/sys/class/net/eth0/mtu", "1500\n"},
      {"/etc/hosts", "127.0.0.1 localhost\n10.0.0.7 node-7\n"},
      {"/dev/shm/.made", ""},
      {"/tmp/.made", ""},
      {"/usr/bin/py-spy", ""},
      {"/usr/bin/gdb", ""},
  };
  machine.node.host_name = "node-7";
  machine.node.nvml_library = "libnone.so";
  machine.node.home = "/home/user";
  machine.node.environment = {"PATH=/usr/bin"};
  machine.node.is_root = true;
  machine.node.is_synchronized = true;
  machine.node.sees_all_processes = true;
  machine.node.limits.descriptors = 1'048'576;
  machine.node.limits.stack = 8 << 20;
  machine.node.workers = 2;
  return machine;
}

inline void add_gpu(Machine& machine, const std::string& address, const std::string& model, int minor) {
  const std::string device = "/sys/devices/pci0000:15/0000:15:01.0/" + std::string(kSwitch) + "/" + address + "/";
  auto& files = machine.files;
  files["/proc/driver/nvidia/gpus/" + address + "/information"] = gpu_information(model, "GPU-" + address, minor);
  files["/dev/nvidia" + std::to_string(minor)] = "";
  files[device + "class"] = "0x030200\n";
  files[device + "vendor"] = "0x10de\n";
  files[device + "local_cpulist"] = "0-15\n";
  files[device + "current_link_width"] = "16\n";
  files[device + "max_link_width"] = "16\n";
  files[device + "max_link_speed"] = "32.0 GT/s PCIe\n";
  files[device + "iommu_group/type"] = "identity\n";
}

// The same with two GPUs below one PCIe switch, a driver and NCCL.
inline Machine gpu_machine(const std::string& model = "NVIDIA H100 PCIe") {
  Machine machine = plain_machine();
  const std::string bridge = "/sys/devices/pci0000:15/0000:15:01.0/" + std::string(kSwitch);
  machine.files[bridge + "/config"] = bridge_config(0);
  machine.files[bridge + "/max_link_width"] = "16\n";
  machine.files["/sys/devices/pci0000:15/0000:15:01.0/config"] = bridge_config(0);
  machine.files["/proc/driver/nvidia/version"] =
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n";
  machine.files["/dev/nvidia-uvm"] = "";
  machine.files["/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15"] = "";
  machine.files["/usr/lib/x86_64-linux-gnu/libnccl.so.2.26.2"] = "";
  add_gpu(machine, kFirstGpu, model, 0);
  add_gpu(machine, kSecondGpu, model, 1);
  return machine;
}

inline void add_rdma_port(Machine& machine, const std::string& device, const std::string& state,
                          const std::string& rate, int lost) {
  const std::string folder = "/sys/class/infiniband/" + device;
  machine.files["/dev/infiniband/uverbs0"] = "";
  machine.files[folder + "/board_id"] = "MT_0000000838\n";
  machine.files[folder + "/ports/1/link_layer"] = "InfiniBand\n";
  machine.files[folder + "/ports/1/state"] = state + "\n";
  machine.files[folder + "/ports/1/rate"] = rate + "\n";
  machine.files[folder + "/ports/1/counters/link_downed"] = std::to_string(lost) + "\n";
}

// Makes the tree in the directory, and returns the node whose root it is.
inline Node make(const Machine& machine, const std::string& root) {
  namespace fs = std::filesystem;
  for (const auto& [path, text] : machine.files) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path, std::ios::binary) << text;
  }
  // /sys/bus/pci/devices has a link to each device.
  const std::string links = root + "/sys/bus/pci/devices";
  fs::create_directories(links);
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(root + "/sys/devices", ignored)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory() && name.size() == 12 && name[4] == ':')
      fs::create_directory_symlink(entry.path(), links + "/" + name, ignored);
  }
  Node node = machine.node;
  node.root = root;
  node.gpus = find_gpus(root, [](const std::string&) { return false; });
  node.file_system = [shared = machine.shared_memory](const std::string& path) -> std::optional<FileSystem> {
    return path == "/dev/shm" ? shared : FileSystem{std::uint64_t{1} << 40, std::uint64_t{1} << 39};
  };
  return node;
}

}  // namespace ddp::launcher::doctor
