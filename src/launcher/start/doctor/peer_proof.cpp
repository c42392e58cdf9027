#include "launcher/start/doctor/peer_proof.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "launcher/start/doctor/cuda_driver.h"
#include "launcher/start/doctor/run_checks.h"

namespace ddp::launcher::doctor {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kWords = 1 << 17;
constexpr std::size_t kBytes = kWords * sizeof(std::uint64_t);
constexpr std::uint64_t kRoundWords = 32;
constexpr std::uint64_t kRounds = 500;
// A step takes milliseconds. A GPU that other programs use gives each of them a few milliseconds in turn, and each
// round needs both GPUs.
constexpr auto kStepLimit = 10s;
constexpr auto kRoundsLimit = 20s;
constexpr auto kRoomLimit = 4s;
constexpr auto kPairLimit = 55s;  // both directions, and the start of CUDA
// CUDA takes 300 to 600 MiB of a GPU for each process. The rest is for programs that use the GPU already.
constexpr std::uint64_t kMemoryOfPair = 600ULL << 20;
constexpr std::uint64_t kMemoryOfOthers = 1ULL << 30;
constexpr unsigned kBlocks = 32;
constexpr unsigned kThreads = 256;  // as in the kernels

struct DoesNotEnd : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(CudaStatus status, const char* call) {
  if (status != 0) throw std::runtime_error(std::string(call) + " returns CUDA error " + std::to_string(status));
}

// One GPU in this process, with a buffer of kBytes and a smaller one.
class Gpu {
 public:
  // `number` is CUDA's.
  Gpu(const CudaDriver& cuda, int number, std::string name) : cuda_(cuda), name_(std::move(name)) {
    require(cuda_.get_device(&device_, number), "cuDeviceGet");
    require(cuda_.retain_context(&context_, device_), "cuDevicePrimaryCtxRetain");
    use();
    constexpr unsigned kNonBlocking = 1;
    require(cuda_.create_stream(&stream_, kNonBlocking, 0), "cuStreamCreateWithPriority");
    require(cuda_.allocate(&buffer_, kBytes), "cuMemAlloc");
    require(cuda_.allocate(&flags_, 4 * sizeof(std::uint64_t)), "cuMemAlloc");
    void* module = nullptr;
    require(cuda_.load_module(&module, kPeerKernels), "cuModuleLoadData");
    for (auto& [kernel, function] : kernels_)
      require(cuda_.find_function(&function, module, kernel), "cuModuleGetFunction");
  }

  void use() const { require(cuda_.use_context(context_), "cuCtxSetCurrent"); }
  // Returns whether CUDA offers access to the memory of the peer, which it then has.
  bool reaches(const Gpu& peer) const {
    int can = 0;
    require(cuda_.can_access_peer(&can, device_, peer.device_), "cuDeviceCanAccessPeer");
    if (can == 0) return false;
    use();
    require(cuda_.enable_peer_access(peer.context_, 0), "cuCtxEnablePeerAccess");
    return true;
  }

  CudaAddress buffer() const { return buffer_; }
  CudaAddress flag() const { return flags_; }
  CudaAddress answer() const { return flags_ + sizeof(std::uint64_t); }
  CudaAddress result() const { return flags_ + 2 * sizeof(std::uint64_t); }
  const std::string& name() const { return name_; }

  void clear(CudaAddress memory, std::size_t bytes) const {
    use();
    require(cuda_.fill(memory, 0, bytes, stream_), "cuMemsetD8Async");
    wait("clearing memory");
  }
  void write(CudaAddress memory, std::uint64_t seed) const {
    start("ddp_write", {memory, kWords, seed});
    wait("writing");
  }
  // Returns how many words at this address, as this GPU sees it, are not those of the seed.
  std::uint64_t count_wrong(CudaAddress memory, std::uint64_t seed) const {
    clear(result(), 2 * sizeof(std::uint64_t));
    start("ddp_count", {memory, kWords, seed, result()});
    wait("reading");
    return read_result();
  }
  std::uint64_t read_result() const {
    std::uint64_t value = 0;
    copy(reinterpret_cast<CudaAddress>(&value), result(), sizeof value);
    return value;
  }
  void copy(CudaAddress to, CudaAddress from, std::size_t bytes) const {
    use();
    require(cuda_.copy(to, from, bytes, stream_), "cuMemcpyAsync");
    wait("copying to or from host memory");
  }
  void copy_to(const Gpu& peer) const {
    use();
    require(cuda_.copy_peer(peer.buffer_, peer.context_, buffer_, context_, kBytes, stream_), "cuMemcpyPeerAsync");
    wait("copying");
  }
  void start(const char* kernel, std::array<std::uint64_t, 6> values) const {
    use();
    std::array<void*, 6> parameters{};
    for (std::size_t i = 0; i < values.size(); ++i) parameters[i] = &values[i];
    const bool is_loop = kernel == std::string_view("ddp_send") || kernel == std::string_view("ddp_receive");
    for (const auto& [name, function] : kernels_) {
      if (std::string_view(name) != kernel) continue;
      require(cuda_.launch(function, is_loop ? 1 : kBlocks, 1, 1, is_loop ? 1 : kThreads, 1, 1, 0, stream_,
                           parameters.data(), nullptr),
              "cuLaunchKernel");
    }
  }
  // Waits without a call that blocks, because the work may never end.
  void wait(const char* what, std::chrono::seconds limit = kStepLimit) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    use();
    while (true) {
      const CudaStatus status = cuda_.query_stream(stream_);
      if (status == 0) return;
      if (status != kNotReady) require(status, "cuStreamQuery");
      if (std::chrono::steady_clock::now() > end)
        throw DoesNotEnd(std::string(what) + " does not end within " + base::human_duration(limit));
      std::this_thread::sleep_for(100us);
    }
  }

 private:
  const CudaDriver& cuda_;
  std::string name_;
  int device_ = 0;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  CudaAddress buffer_ = 0;
  CudaAddress flags_ = 0;
  std::array<std::pair<const char*, void*>, 4> kernels_ = {
      {{"ddp_write", nullptr}, {"ddp_count", nullptr}, {"ddp_send", nullptr}, {"ddp_receive", nullptr}}};
};

std::string wrong_text(std::uint64_t wrong) {
  return std::to_string(wrong) + " of " + std::to_string(kWords) + " words are wrong";
}

// Returns whether data from one GPU arrive at the other through host memory.
bool arrives_through_host(const CudaDriver& cuda, const Gpu& from, const Gpu& to) {
  constexpr std::uint64_t kSeed = 1;
  void* host = nullptr;
  constexpr unsigned kPortable = 1;
  require(cuda.allocate_host(&host, kBytes, kPortable), "cuMemHostAlloc");
  from.write(from.buffer(), kSeed);
  from.copy(reinterpret_cast<CudaAddress>(host), from.buffer(), kBytes);
  to.copy(to.buffer(), reinterpret_cast<CudaAddress>(host), kBytes);
  return to.count_wrong(to.buffer(), kSeed) == 0;
}

// Returns what is wrong with the direct way from one GPU to the other, or "". Throws DoesNotEnd if a GPU stays busy.
std::string trouble_on_way(const Gpu& from, const Gpu& to) {
  to.clear(to.buffer(), kBytes);
  from.write(to.buffer(), 2);
  if (const auto wrong = to.count_wrong(to.buffer(), 2); wrong > 0) {
    const bool is_mirror = wrong == kWords && from.count_wrong(to.buffer(), 2) == 0;
    return is_mirror ? "writes never arrive, although the writer reads them back"
                     : "writes by a kernel: " + wrong_text(wrong) + " on their owner";
  }
  to.write(to.buffer(), 3);
  if (const auto wrong = from.count_wrong(to.buffer(), 3); wrong > 0) return "reads by a kernel: " + wrong_text(wrong);
  from.write(from.buffer(), 4);
  to.clear(to.buffer(), kBytes);
  from.copy_to(to);
  if (const auto wrong = to.count_wrong(to.buffer(), 4); wrong > 0)
    return "copies by the copy engine: " + wrong_text(wrong) + " on their owner";
  to.clear(to.flag(), 4 * sizeof(std::uint64_t));
  from.clear(from.flag(), 4 * sizeof(std::uint64_t));
  to.start("ddp_receive", {to.buffer(), to.flag(), from.answer(), kRoundWords, kRounds, to.result()});
  from.start("ddp_send", {to.buffer(), to.flag(), from.answer(), kRoundWords, kRounds});
  try {
    to.wait("", kRoundsLimit);
    from.wait("", kRoundsLimit);
  } catch (const DoesNotEnd&) {
    throw DoesNotEnd("a flag that is written after its data never arrives, which NCCL waits for");
  }
  const std::uint64_t early = to.read_result();
  return early == 0 ? ""
                    : "flags arrive before their data: " + base::counted(std::int64_t(early), "word") + " were old";
}

constexpr const char* kRemedy =
    "NCCL_P2P_DISABLE=1 at once, which costs bandwidth. The finding peer-access names what redirects the writes. In a "
    "virtual machine: let the hypervisor pass the GPUs through with ATS, or without peer access";

// Returns the name of the GPU that CUDA counts as `number` in this process. CUDA_VISIBLE_DEVICES may choose some.
std::string name_of(const Node& node, int number) {
  const VisibleGpu gpu = node.visible().at(static_cast<std::size_t>(number));
  return "GPU " + (gpu.index ? std::to_string(*gpu.index) : gpu.name);
}

Findings prove(const Node& node, int one, int other) {
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
  const CudaDriver cuda(node.cuda_library);
  if (!cuda.is_complete()) return {unknown(node.cuda_library + " cannot be opened, or is too old")};
  require(cuda.init(0), "cuInit");
  int count = 0;
  require(cuda.device_count(&count), "cuDeviceGetCount");
  const bool is_alone = one == other;
  const std::string pair = name_of(node, one) + (is_alone ? "" : " ↔ " + name_of(node, other));
  if (other >= count) return {unknown(pair + ": CUDA shows only " + base::counted(count, "GPU"))};
  const Gpu first(cuda, one, name_of(node, one));
  const Gpu second(cuda, other, name_of(node, other));
  // The owner of a flag answers in the other direction.
  if (!is_alone && (!first.reaches(second) || !second.reaches(first)))
    return {ok(pair + ": no peer access, so NCCL goes through host memory")};
  Findings findings;
  for (const auto& [from, to] : {std::pair(&first, &second), std::pair(&second, &first)}) {
    const std::string way = from->name() + " → " + to->name() + ": ";
    const bool works_through_host = arrives_through_host(cuda, *from, *to);
    const std::string through_host =
        works_through_host ? ". Through host memory, all arrive" : ". Through host memory, they do not arrive either";
    const auto add = [&](const std::string& trouble) {
      findings.push_back(fail(way + trouble + through_host, kRemedy));
      if (works_through_host && !is_alone) findings.back().fallback = "NCCL_P2P_DISABLE=1";
    };
    try {
      if (const std::string trouble = trouble_on_way(*from, *to); !trouble.empty()) add(trouble);
    } catch (const DoesNotEnd& step) {
      add(step.what());
      return findings;  // the GPU is still busy
    }
    if (is_alone) break;
  }
  if (findings.empty()) findings.push_back(ok(pair + ": all writes, reads, copies and flags arrive in order"));
  return findings;
}

// Joins findings that differ only in their pair or way, since all GPUs of a node mostly have the same trouble.
Findings joined(const Findings& all) {
  constexpr std::size_t kMostWays = 6;
  Findings result;
  std::vector<std::vector<std::string>> ways;  // of each finding of `result`
  for (Finding finding : all) {
    const std::size_t colon = finding.text.find(": ");
    const std::string way = colon == std::string::npos ? "" : finding.text.substr(0, colon);
    if (colon != std::string::npos) finding.text.erase(0, colon);
    const auto same = static_cast<std::size_t>(std::ranges::find(result, finding) - result.begin());
    if (same == result.size()) {
      result.push_back(std::move(finding));
      ways.emplace_back();
    }
    ways[same].push_back(way);
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t shown = std::min(ways[i].size(), kMostWays);
    const std::string more = ways[i].size() > shown ? " and " + std::to_string(ways[i].size() - shown) + " more" : "";
    result[i].text.insert(0, base::join(std::span(ways[i]).first(shown), ", ") + more);
  }
  return result;
}

// Finds nothing if there is memory for all pairs at once, or if the driver does not say.
Findings check_room(const Node& node) {
  const std::uint64_t pairs = std::max<std::uint64_t>(node.visible().size(), 2) - 1;  // of each GPU
  const std::uint64_t needed = pairs * kMemoryOfPair + kMemoryOfOthers;
  const auto free = least_free_memory(node);
  if (!free || *free >= needed) return {};
  return {unknown("a GPU has " + base::human_bytes(*free) + " free, and the proof is made only with " +
                      base::human_bytes(needed) + ", so that programs which use the GPUs do not lack it",
                  "ddplaunch doctor --deep when they have ended")};
}

}  // namespace

Findings check_peer_writes(const Node& node) {
  const auto gpus = static_cast<int>(node.visible().size());
  if (gpus == 0) return {ok("no GPU has a peer here")};
  const Check room = {"peer-writes", check_room};
  if (Findings lack = run_checks(std::span(&room, 1), node, kRoomLimit); !lack.empty()) return lack;
  std::vector<Check> pairs;
  for (int one = 0; one < gpus; ++one) {
    for (int other = one + 1; other < gpus; ++other) {
      pairs.push_back({"peer-writes", [one, other](const Node& each) { return prove(each, one, other); }, Grade::fail});
    }
  }
  // A GPU alone shows that the kernels and its memory are right.
  if (gpus == 1) pairs.push_back({"peer-writes", [](const Node& each) { return prove(each, 0, 0); }, Grade::fail});
  return joined(run_checks(pairs, node, kPairLimit));
}

}  // namespace ddp::launcher::doctor
