// These programs get too little of something: a processor, a quota, memory, or the network. Those of the network need
// their own (expected.py), and the gloo backend.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks are POSIX
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <span>
#include <thread>

#include "zoo/zoo.h"

namespace zoo {
namespace {

// Runs beside a hog on the same processor with the lowest priority, and gets a third of a percent.
void starve(double seconds) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ::sched_setaffinity(0, sizeof one, &one);
  const pid_t hog = in_child([] { use_processor(1e6); });
  const pid_t starving = in_child([] {
    const sched_param none{};
    ::sched_setscheduler(0, SCHED_IDLE, &none);
    use_processor(1e6);
  });
  sleep_for(seconds);
  for (const pid_t child : {hog, starving}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

// Writes to a file of the kernel. Returns false if that is not possible.
bool write_to(const std::filesystem::path& file, const std::string& text) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  const bool is_done = ::write(opened, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(opened);
  return is_done;
}

// Limits the group to a thousandth of a processor.
bool set_quota(const std::filesystem::path& group) {
  return (write_to(group / "cpu.cfs_period_us", "1000000") && write_to(group / "cpu.cfs_quota_us", "1000")) ||
         write_to(group / "cpu.max", "1000 1000000");
}

// Makes a control group of the first kind that limits processors. Returns an empty path if this user cannot make one.
std::filesystem::path make_group(const std::string& name) {
  for (const char* root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
    const std::filesystem::path group = std::filesystem::path(root) / name;
    std::error_code error;
    if (!std::filesystem::create_directory(group, error)) continue;
    if (set_quota(group)) return group;
    ::rmdir(group.c_str());
  }
  return {};
}

void be_throttled(double seconds) {
  const std::filesystem::path group = make_group("zoo_" + std::to_string(::getpid()));
  require(!group.empty(), "a control group");
  const pid_t child = in_child([] { use_processor(1e6); });
  require(write_to(group / "cgroup.procs", std::to_string(child)), "cgroup.procs");
  sleep_for(seconds);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  while (::rmdir(group.c_str()) != 0) sleep_for(0.1);
}

// Holds memory whose pages arrive one after the other, ten per second, as if over a network.
class SlowMemory {
 public:
  explicit SlowMemory(std::size_t bytes) : bytes_(bytes) {
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    faults_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
    uffdio_api api{UFFD_API, 0, 0};
    uffdio_register all{{reinterpret_cast<std::uint64_t>(memory_), bytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
    require(::ioctl(faults_, UFFDIO_API, &api) == 0 && ::ioctl(faults_, UFFDIO_REGISTER, &all) == 0, "userfaultfd");
    std::thread([faults = faults_] { serve(faults); }).detach();
  }

  std::span<float> values() const { return {static_cast<float*>(memory_), bytes_ / sizeof(float)}; }

 private:
  static void serve(int faults) {
    constexpr std::uint64_t kPage = 4096;
    uffd_msg fault{};
    while (::read(faults, &fault, sizeof fault) == sizeof fault) {
      sleep_for(0.1);
      uffdio_zeropage page{{fault.arg.pagefault.address & ~(kPage - 1), kPage}, 0, 0};
      ::ioctl(faults, UFFDIO_ZEROPAGE, &page);
    }
  }

  const std::size_t bytes_;
  void* memory_ = nullptr;
  int faults_ = -1;
};

const std::map<std::string, Action> kStarved = {
    {"starves", of_rank_one([] { starve(kBusySeconds); })},
    {"is_throttled", of_rank_one([] { be_throttled(kBusySeconds); })},
    {"sends_slow_memory",
     [](ddp::ProcessGroup& world) {
       constexpr std::size_t kBytes = std::size_t{kBusySeconds} * 10 * 4096;
       if (world.rank() == 0) {
         std::vector<float> values(kBytes / sizeof(float));
         world.recv(values, 1).wait();
       }
       if (world.rank() == 1) world.send(SlowMemory(kBytes).values(), 0).wait();
     }},
};

// Uses `ip` rather than `tc netem`, which few kernels have.
void lose_network() {
  run("ip link set lo down");
}

const std::map<std::string, Action> kNetwork = {
    {"has_a_slow_network",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) run("tc qdisc replace dev lo root tbf rate 1500kbit burst 128kb latency 60s");
       std::vector<float> values(std::size_t{1} << 18);
       world.all_reduce(values).wait();
       if (world.rank() == 1) run("tc qdisc delete dev lo root");
     }},
    {"loses_the_network", of_rank_one([] { lose_network(); })},
    {"loses_the_network_and_computes",
     [](ddp::ProcessGroup& world) {
       std::thread([] { compute_for(1e6); }).detach();
       if (world.rank() == 1) lose_network();
     }},
};

}  // namespace

std::map<std::string, Action> starved() {
  std::map<std::string, Action> some = kStarved;
  if (const auto group = make_group("zoo_probe_" + std::to_string(::getpid())); !group.empty()) {
    ::rmdir(group.c_str());
  } else {
    some.erase("is_throttled");
  }
  const int faults = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
  if (faults < 0) some.erase("sends_slow_memory");
  ::close(faults);
  return some;
}

std::map<std::string, Action> network() {
  const bool can_be_tried =
      ::geteuid() == 0 && std::system("command -v tc >/dev/null && unshare --net true") == 0;  // NOLINT
  return can_be_tried ? kNetwork : std::map<std::string, Action>();
}

}  // namespace zoo
