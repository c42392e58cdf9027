#include "launcher/start/doctor/checks.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "support/catch.h"
#include "support/paths.h"
#include "unit/launcher/start/doctor/made_machine.h"

using namespace ddp::launcher;
using namespace ddp::launcher::doctor;

namespace {

Findings findings_of(const Machine& machine) {
  const TemporaryDirectory root;
  const Node node = make(machine, root.path());
  Findings all;
  for (const Check& check : all_checks()) {
    for (Finding& finding : check.run(node)) {
      finding.check = check.name;
      all.push_back(std::move(finding));
    }
  }
  return all;
}

Findings troubles_of(const Machine& machine) {
  Findings troubles = findings_of(machine);
  std::erase_if(troubles, [](const Finding& finding) { return finding.grade < Grade::warn; });
  return troubles;
}

struct Trouble {
  const char* name;
  std::function<void(Machine&)> make;
  const char* check;
  Grade grade;
  const char* words;
};

// A change to a healthy machine with two GPUs. Each is named by one check, and no other check complains.
const Trouble kTroubles[] = {
    {"few files may be open", [](Machine& m) { m.node.limits.descriptors = 1024; }, "files", Grade::warn, "1024 files"},
    {"too few files for the workers", [](Machine& m) { m.node.limits.descriptors = 40; }, "files", Grade::fail,
     "ulimit"},
    {"few processes by ulimit", [](Machine& m) { m.node.limits.processes = 100; }, "processes", Grade::warn,
     "ulimit -u"},
    {"few processes in a pod",
     [](Machine& m) {
       m.files["/sys/fs/cgroup/user.slice/pids.max"] = "64\n";
       m.files["/sys/fs/cgroup/user.slice/pids.current"] = "60\n";
     },
     "processes", Grade::fail, "pids.max"},
    {"little memory may be locked beside an RDMA device",
     [](Machine& m) {
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       m.node.nodes = 2;
       m.node.limits.locked_memory = 8 << 20;
     },
     "locked-memory", Grade::warn, "8 MiB"},
    {"a stack without a limit", [](Machine& m) { m.node.limits.stack = ResourceLimits::kUnlimited; }, "stack",
     Grade::warn, "NCCL before 2.28"},
    {"a small stack", [](Machine& m) { m.node.limits.stack = 64 << 10; }, "stack", Grade::warn, "only 64 KiB"},
    {"few ports", [](Machine& m) { m.files["/proc/sys/net/ipv4/ip_local_port_range"] = "60900\t60999\n"; }, "ports",
     Grade::warn, "100 ports"},
    {"little memory is free", [](Machine& m) { m.files["/proc/meminfo"] = "MemAvailable: 1000000 kB\n"; }, "memory",
     Grade::warn, "kill"},
    {"the container may use hardly any memory",
     [](Machine& m) {
       m.files["/sys/fs/cgroup/user.slice/memory.max"] = "209715200\n";
       m.files["/sys/fs/cgroup/user.slice/memory.current"] = "104857600\n";
     },
     "memory", Grade::fail, "100 MiB"},
    {"Docker's /dev/shm",
     [](Machine& m) {
       m.shared_memory = {64 << 20, 64 << 20};
     },
     "shared-memory", Grade::fail, "64 MiB"},
    {"a full /dev/shm",
     [](Machine& m) {
       m.shared_memory = {std::uint64_t{8} << 30, 1 << 20};
     },
     "shared-memory", Grade::warn, "have ended may fill it"},
    {"no /dev/shm", [](Machine& m) { m.remove("/dev/shm"); }, "shared-memory", Grade::fail, "no /dev/shm"},
    {"a /dev/shm that cannot be written",
     [](Machine& m) {
       m.remove("/dev/shm");
       m.files["/dev/shm"] = "";
     },
     "shared-memory", Grade::fail, "no file can be created in /dev/shm: Not a directory"},
    {"a CPU quota below the number of workers",
     [](Machine& m) { m.files["/sys/fs/cgroup/user.slice/cpu.max"] = "100000 100000\n"; }, "cpus", Grade::warn,
     "quota"},
    {"fewer CPUs than workers", [](Machine& m) { m.files["/proc/self/status"] = "Cpus_allowed_list:\t3\n"; }, "cpus",
     Grade::warn, "only 1 CPU"},
    {"CPUs of the wrong socket", [](Machine& m) { m.files["/proc/self/status"] = "Cpus_allowed_list:\t16-31\n"; },
     "cpus", Grade::warn, "another NUMA node"},
    {"no time server between nodes",
     [](Machine& m) {
       m.node.nodes = 2;
       m.node.is_synchronized = false;
     },
     "clock", Grade::warn, "time server"},
    {"the host's name is the loopback address",
     [](Machine& m) {
       m.node.nodes = 2;
       m.files["/etc/hosts"] = "127.0.0.1 localhost\n127.0.1.1 node-7\n";
     },
     "host-name", Grade::warn, "127.0.1.1"},
    {"NCCL_SOCKET_IFNAME of another machine", [](Machine& m) { m.set("NCCL_SOCKET_IFNAME", "ens5"); }, "interfaces",
     Grade::fail, "names no interface"},
    {"GLOO_SOCKET_IFNAME with a prefix, which only NCCL understands",
     [](Machine& m) { m.set("GLOO_SOCKET_IFNAME", "eth"); }, "interfaces", Grade::fail, "GLOO_SOCKET_IFNAME=eth"},
    {"NCCL_SOCKET_IFNAME names an interface that is down",
     [](Machine& m) {
       m.files["/sys/class/net/ib0/operstate"] = "down\n";
       m.set("NCCL_SOCKET_IFNAME", "=ib0");
     },
     "interfaces", Grade::fail, "down"},
    {"the loopback interface between nodes",
     [](Machine& m) {
       m.node.nodes = 2;
       m.set("NCCL_SOCKET_IFNAME", "lo");
     },
     "interfaces", Grade::fail, "other nodes cannot reach"},
    {"two interfaces in one network",
     [](Machine& m) {
       m.node.nodes = 2;
       m.files["/sys/class/net/eth1/operstate"] = "up\n";
       m.files["/proc/net/route"] += "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
     },
     "interfaces", Grade::warn, "eth0 and eth1"},
    {"no interface is up between nodes",
     [](Machine& m) {
       m.node.nodes = 2;
       m.files["/sys/class/net/eth0/operstate"] = "down\n";
     },
     "interfaces", Grade::fail, "no interface"},
    {"an RDMA port that went down",
     [](Machine& m) {
       m.node.nodes = 2;
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       add_rdma_port(m, "mlx5_1", "1: DOWN", "400 Gb/sec (4X NDR)", 3);
     },
     "rdma", Grade::warn, "mlx5_1:1 is DOWN, and was up before"},
    {"an RDMA port that NCCL is to use is down",
     [](Machine& m) {
       m.node.nodes = 2;
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       add_rdma_port(m, "mlx5_1", "1: DOWN", "400 Gb/sec (4X NDR)", 0);
       m.set("NCCL_IB_HCA", "mlx5_0,mlx5_1");
     },
     "rdma", Grade::warn, "mlx5_1:1 is DOWN"},
    {"an RDMA port at a lower rate than its peers",
     [](Machine& m) {
       m.node.nodes = 2;
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       add_rdma_port(m, "mlx5_1", "4: ACTIVE", "100 Gb/sec (1X NDR)", 0);
     },
     "rdma", Grade::warn, "mlx5_1:1 has only 100 Gb/sec"},
    {"no RDMA port is active",
     [](Machine& m) {
       m.node.nodes = 2;
       add_rdma_port(m, "mlx5_0", "2: INIT", "400 Gb/sec (4X NDR)", 0);
     },
     "rdma", Grade::warn, "no RDMA port is active"},
    {"NCCL_IB_HCA names no active port",
     [](Machine& m) {
       m.node.nodes = 2;
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       add_rdma_port(m, "mlx5_10", "1: DOWN", "400 Gb/sec (4X NDR)", 0);
       m.files["/etc/nccl.conf"] = "NCCL_IB_HCA=mlx5_10\n";
     },
     "rdma", Grade::fail, "NCCL_IB_HCA=mlx5_10 names no RDMA port"},
    {"a container without the RDMA device files",
     [](Machine& m) {
       m.node.nodes = 2;
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       m.remove("/dev/infiniband");
     },
     "rdma", Grade::warn, "no /dev/infiniband"},
    {"RDMA cannot reach the GPUs",
     [](Machine& m) {
       m.node.nodes = 2;
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       m.files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue\n";
     },
     "rdma", Grade::warn, "memory of the GPUs"},
    {"GPUs without a driver",
     [](Machine& m) {
       m.remove("/proc/driver");
       m.remove("/dev/nvidia");
     },
     "gpus", Grade::fail, "no driver is loaded"},
    {"a container without the GPUs' device files", [](Machine& m) { m.remove("/dev/nvidia"); }, "gpus", Grade::fail,
     "no device files"},
    {"no /dev/nvidia-uvm", [](Machine& m) { m.remove("/dev/nvidia-uvm"); }, "gpus", Grade::fail, "nvidia-uvm"},
    {"more workers than GPUs", [](Machine& m) { m.node.workers = 4; }, "gpus", Grade::fail, "4 workers on 2 GPUs"},
    {"the driver was updated without a reboot",
     [](Machine& m) {
       m.remove("/usr/lib/x86_64-linux-gnu/libnvidia-ml");
       m.files["/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.575.57.08"] = "";
     },
     "driver", Grade::fail, "575.57.08"},
    {"a GPU with half of its PCIe lanes",
     [](Machine& m) {
       m.files["/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0/current_link_width"] = "8\n";
     },
     "pci-links", Grade::warn, "GPU 1 (0000:18:00.0) has 8 of 16"},
    {"Access Control Services on the switch",
     [](Machine& m) { m.files["/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/config"] = bridge_config(0x1d); },
     "peer-access", Grade::warn, "0000:16:00.0"},
    {"NVSwitches without their fabric manager", [](Machine& m) { m.files["/dev/nvidia-nvswitchctl"] = ""; }, "fabric",
     Grade::fail, "error 802"},
    {"a known bad NCCL",
     [](Machine& m) {
       m.remove("/usr/lib/x86_64-linux-gnu/libnccl");
       m.files["/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.3"] = "";
     },
     "nccl", Grade::warn, "ncclCommAbort"},
    {"a wheel with a known bad NCCL",
     [](Machine& m) {
       m.set("VIRTUAL_ENV", "/venv");
       m.files["/venv/lib/python3.11/site-packages/nvidia_nccl_cu13-2.28.3.dist-info/METADATA"] = "";
     },
     "nccl", Grade::warn, "pip install 'nvidia_nccl_cu13>=2.28.9'"},
    {"a GPU that fell off the bus",
     [](Machine& m) {
       m.files["/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0/current_link_width"] = "63\n";
     },
     "pci-links", Grade::fail, "no longer answers"},
    {"the driver's files hang", [](Machine& m) { m.node.gpus_failure = "no answer within 4.0 s"; }, "gpus", Grade::fail,
     "no answer"},
    {"P2P was disabled once and for all", [](Machine& m) { m.set("NCCL_P2P_DISABLE", "1"); }, "variables", Grade::warn,
     "host memory"},
    {"P2P is disabled in a file", [](Machine& m) { m.files["/home/user/.nccl.conf"] = "# once\nNCCL_P2P_DISABLE=1\n"; },
     "variables", Grade::warn, "/home/user/.nccl.conf"},
    {"a misspelt variable", [](Machine& m) { m.set("NCCL_SOCKET_IFNAM", "eth0"); }, "variables", Grade::warn,
     "no program known here"},
    {"InfiniBand was disabled between nodes",
     [](Machine& m) {
       m.node.nodes = 2;
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       m.set("NCCL_IB_DISABLE", "1");
     },
     "variables", Grade::warn, "uses TCP"},
    {"kernels are awaited one by one", [](Machine& m) { m.set("CUDA_LAUNCH_BLOCKING", "1"); }, "variables", Grade::warn,
     "waits for each kernel"},
    {"one debug file for all ranks", [](Machine& m) { m.set("NCCL_DEBUG_FILE", "/tmp/nccl.log"); }, "variables",
     Grade::warn, "all ranks write"},
    {"CUDA_VISIBLE_DEVICES beyond the GPUs", [](Machine& m) { m.set("CUDA_VISIBLE_DEVICES", "0,1,2"); }, "variables",
     Grade::fail, "shows only 2 GPUs"},
    {"CUDA_VISIBLE_DEVICES of another machine", [](Machine& m) { m.set("CUDA_VISIBLE_DEVICES", "NoDevFiles"); },
     "variables", Grade::fail, "CUDA shows none"},
    {"CUDA_VISIBLE_DEVICES with a GPU twice", [](Machine& m) { m.set("CUDA_VISIBLE_DEVICES", "0,0"); }, "variables",
     Grade::fail, "twice"},
    {"more threads than CPUs", [](Machine& m) { m.set("OMP_NUM_THREADS", "64"); }, "variables", Grade::warn,
     "OMP_NUM_THREADS=64"},
    {"stacks cannot be read", [](Machine& m) { m.files["/proc/sys/kernel/yama/ptrace_scope"] = "3\n"; }, "diagnosis",
     Grade::warn, "ptrace_scope=3"},
    {"no folder for temporary files", [](Machine& m) { m.set("TMPDIR", "/missing"); }, "temporary", Grade::fail,
     "/missing (TMPDIR): cannot create a file: No such file"},
    {"checkpoints cannot be written", [](Machine& m) { m.node.folder = "/missing"; }, "checkpoints", Grade::fail,
     "No such file"},
};

struct Healthy {
  const char* name;
  Machine (*make)();
};

const Healthy kHealthy[] = {
    {"bare metal with two GPUs", [] { return gpu_machine(); }},
    {"bare metal without a GPU", plain_machine},
    {"a virtual machine, which needs Access Control Services and an IOMMU",
     [] {
       Machine m = gpu_machine();
       m.files["/proc/cpuinfo"] = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n";
       m.files["/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/config"] = bridge_config(0x1d);
       return m;
     }},
    {"a container: no processes of others, 64 bytes of each bridge, no rights",
     [] {
       Machine m = gpu_machine();
       m.node.is_root = false;
       m.node.sees_all_processes = false;
       m.files["/dev/nvidia-nvswitchctl"] = "";
       for (const char* bridge : {"", "/0000:16:00.0"})
         m.files["/sys/devices/pci0000:15/0000:15:01.0" + std::string(bridge) + "/config"] = std::string(64, '\0');
       m.node.limits.processes = 4096;
       return m;
     }},
    {"WSL2, which shows its GPUs only to the library",
     [] {
       Machine m = plain_machine();
       m.files["/dev/dxg"] = "";
       m.files["/proc/cpuinfo"] = "flags\t\t: fpu hypervisor\n";
       return m;
     }},
    {"a DGX: NVSwitches, their fabric manager, ports without a cable",
     [] {
       Machine m = gpu_machine("NVIDIA H100 80GB HBM3");
       m.node.nodes = 4;
       m.files["/dev/nvidia-nvswitchctl"] = "";
       m.files["/proc/4711/comm"] = "nv-fabricmanage\n";
       for (const char* device : {"mlx5_0", "mlx5_1"}) add_rdma_port(m, device, "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       add_rdma_port(m, "mlx5_2", "1: DOWN", "10 Gb/sec (4X SDR)", 0);
       return m;
     }},
    {"Grace: Arm, and an IOMMU that translates",
     [] {
       Machine m = gpu_machine("NVIDIA GH200 480GB");
       m.files["/proc/cpuinfo"] = "processor\t: 0\nCPU implementer\t: 0x41\n";
       for (const char* gpu : {kFirstGpu, kSecondGpu})
         m.files["/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/" + std::string(gpu) + "/iommu_group/type"] =
             "DMA-FQ\n";
       return m;
     }},
    {"a machine of Ascend, with variables of other libraries",
     [] {
       Machine m = plain_machine();
       for (const char* name : {"HCCL_SOCKET_IFNAME", "HCCL_BUFFSIZE", "CUDA_COREDUMP_PIPE", "MASTER_HOST"})
         m.set(name, "1");
       m.node.environment.push_back("=x=1");
       return m;
     }},
    {"a DGX whose storage ports are slower and down, with NCCL_IB_HCA for the others",
     [] {
       Machine m = gpu_machine("NVIDIA H100 80GB HBM3");
       m.node.nodes = 2;
       m.files["/dev/nvidia-nvswitchctl"] = "";
       m.files["/proc/4711/comm"] = "nv-fabricmanage\n";
       add_rdma_port(m, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       add_rdma_port(m, "mlx5_10", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
       add_rdma_port(m, "mlx5_1", "1: DOWN", "200 Gb/sec (4X HDR)", 2);
       m.set("NCCL_IB_HCA", "=mlx5_0,mlx5_10");
       return m;
     }},
    {"a virtual environment with a wheel of NCCL beside the package of the system",
     [] {
       Machine m = gpu_machine();
       m.set("VIRTUAL_ENV", "/venv");
       m.files["/venv/lib/python3.11/site-packages/nvidia_nccl_cu12-2.27.5.dist-info/METADATA"] = "";
       return m;
     }},
    {"a workstation whose IOMMU translates, which only the proof can judge",
     [] {
       Machine m = gpu_machine();
       for (const char* gpu : {kFirstGpu, kSecondGpu})
         m.files["/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/" + std::string(gpu) + "/iommu_group/type"] =
             "DMA-FQ\n";
       return m;
     }},
    {"one node with an RDMA card without a cable, and little memory to lock",
     [] {
       Machine m = gpu_machine();
       add_rdma_port(m, "mlx5_0", "1: DOWN", "400 Gb/sec (4X NDR)", 1);
       m.node.limits.locked_memory = 8 << 20;
       return m;
     }},
    {"a GPU with instances (MIG): one worker for one of them",
     [] {
       Machine m = gpu_machine();
       m.set("CUDA_VISIBLE_DEVICES", "MIG-8d4e2f60-1111-2222-3333-444455556666");
       m.node.workers = 1;
       return m;
     }},
    {"a step of Slurm with its own CPUs and one of the GPUs",
     [] {
       Machine m = gpu_machine();
       m.files["/proc/self/status"] = "Cpus_allowed_list:\t4-7\n";
       m.remove("/dev/nvidia1");
       m.node.workers = 1;
       m.set("SLURM_JOB_ID", "4711");
       m.set("CUDA_VISIBLE_DEVICES", "0");
       return m;
     }},
    {"a pod: a quota for CPUs, a limit for memory and for processes, a network of its own",
     [] {
       Machine m = gpu_machine();
       m.node.nodes = 2;
       m.node.sees_all_processes = false;
       m.files["/sys/fs/cgroup/user.slice/cpu.max"] = "800000 100000\n";
       m.files["/sys/fs/cgroup/user.slice/pids.max"] = "4096\n";
       m.files["/sys/fs/cgroup/user.slice/pids.current"] = "12\n";
       m.files["/sys/fs/cgroup/user.slice/memory.max"] = "68719476736\n";
       m.files["/sys/fs/cgroup/user.slice/memory.current"] = "104857600\n";
       m.set("NCCL_SOCKET_IFNAME", "eth0");
       m.set("NCCL_DEBUG", "WARN");
       m.set("NCCL_OFI_TUNER_TYPE", "internal");  // of a plug-in
       return m;
     }},
};

}  // namespace

TEST_CASE("each trouble is named by its check, with what to do, and by no other check") {
  for (const Trouble& trouble : kTroubles) {
    DYNAMIC_SECTION(trouble.name) {
      Machine machine = gpu_machine();
      trouble.make(machine);
      const Findings found = troubles_of(machine);
      REQUIRE(found.size() == 1);
      CHECK(found.front().check == trouble.check);
      CHECK(found.front().grade == trouble.grade);
      CHECK_THAT(found.front().text + " " + found.front().remedy, Catch::Contains(trouble.words));
      CHECK_FALSE(found.front().remedy.empty());
    }
  }
}

// DDP_UPDATE_GOLDEN=1 writes the table.
TEST_CASE("the page of the manual lists each trouble") {
  std::string table = "| trouble | check | |\n|---|---|---|\n";
  for (const Trouble& trouble : kTroubles) {
    table += std::string("| ") + trouble.name + " | `" + trouble.check + "` | " +
             (trouble.grade == Grade::fail ? "FAIL" : "warn") + " |\n";
  }
  const std::string path = ddp::test::source_directory() + "/docs/reference/doctor.md";
  std::string page = ddp::base::read_file(path);
  const std::size_t begin = page.find("| trouble |");
  REQUIRE(begin != std::string::npos);
  const std::size_t end = page.find("\n\n", begin) + 1;
  if (std::getenv("DDP_UPDATE_GOLDEN") != nullptr) {
    page.replace(begin, end - begin, table);
    std::ofstream(path) << page;
  }
  CHECK(page.substr(begin, table.size() + 1) == table + "\n");
}

TEST_CASE("a healthy machine gets no warning") {
  for (const Healthy& healthy : kHealthy) {
    DYNAMIC_SECTION(healthy.name) {
      for (const Finding& finding : troubles_of(healthy.make())) FAIL_CHECK(finding.check + ": " + finding.text);
    }
  }
}

TEST_CASE("a check that cannot read its source says unknown, and not ok") {
  Machine machine = gpu_machine();
  machine.node.is_root = false;
  for (const char* bridge : {"", "/0000:16:00.0"})
    machine.files["/sys/devices/pci0000:15/0000:15:01.0" + std::string(bridge) + "/config"] = std::string(64, '\0');
  machine.remove("/proc/meminfo");
  machine.remove("/proc/sys/net");
  machine.remove("/sys/class/net");
  std::vector<std::string> unknown;
  for (const Finding& finding : findings_of(machine)) {
    if (finding.grade == Grade::unknown) unknown.push_back(finding.check);
  }
  CHECK(unknown == std::vector<std::string>{"ports", "memory", "interfaces", "gpu-health", "peer-access"});
}

TEST_CASE("the kernel's silence about the clock, and a virtual machine's bridges, are unknown") {
  Machine machine = gpu_machine();
  machine.node.is_synchronized.reset();
  machine.files["/proc/cpuinfo"] = "flags\t\t: fpu hypervisor\n";
  const Findings found = findings_of(machine);
  for (const char* check : {"clock", "peer-access"}) {
    CHECK(std::ranges::find(found, check, &Finding::check)->grade == Grade::unknown);
  }
}
