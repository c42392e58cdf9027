#include "launcher/start/doctor/peer_proof.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iterator>
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
constexpr std::uint64_t kRounds = 50;
constexpr int kRepetitions = 10;
// A step takes milliseconds. A GPU that other programs use gives each of them a few milliseconds in turn, and each
// round needs both GPUs.
constexpr auto kStepLimit = 10s;
constexpr auto kRoundsLimit = 20s;
constexpr auto kRoomLimit = 15s;
constexpr auto kProofLimit = 55s;  // of all rounds
// A round takes both directions of its pairs, and the start of CUDA. Later ones are known to take less.
constexpr std::chrono::milliseconds kFirstRound = 25s;
constexpr std::chrono::milliseconds kLeastRound = 5s;
constexpr std::string_view kName = "peer-writes";
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

// Sends flags behind their data, and returns how many words had not arrived when their flag did. Each flag is answered.
std::uint64_t early_words(const Gpu& from, const Gpu& to) {
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
  return to.read_result();
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
  for (int i = 0; i < kRepetitions; ++i) {
    if (const std::uint64_t early = early_words(from, to); early > 0)
      return "flags arrive before their data: " + base::counted(std::int64_t(early), "word") + " were old";
  }
  return "";
}

constexpr const char* kRemedy =
    "NCCL_P2P_DISABLE=1 at once, which costs bandwidth. The finding peer-access names what redirects the writes. In a "
    "virtual machine: let the hypervisor pass the GPUs through with ATS, or without peer access";

// Returns the name of the GPU that CUDA counts as `number` in this process. CUDA_VISIBLE_DEVICES may choose some.
std::string name_of(const Node& node, int number) {
  const VisibleGpu gpu = node.visible().at(static_cast<std::size_t>(number));
  return "GPU " + (gpu.index ? std::to_string(*gpu.index) : gpu.name);
}

// Two GPUs, as CUDA counts them, or the same one twice.
struct Pair {
  int one = 0;
  int other = 0;
  std::string name;
};

// Returns all pairs in rounds, such that a GPU is in one pair of a round: all but one GPU move on by a place.
std::vector<std::vector<Pair>> rounds_of(const Node& node, int gpus) {
  // A GPU alone shows that the kernels and its memory are right.
  if (gpus == 1) return {{{0, 0, name_of(node, 0)}}};
  const int places = gpus + gpus % 2;
  std::vector<std::vector<Pair>> rounds;
  for (int round = 0; round < places - 1; ++round) {
    rounds.emplace_back();
    for (int i = 0; i < places / 2; ++i) {
      const int next = (round + i) % (places - 1);
      const int fixed_or_previous = i == 0 ? places - 1 : (round + places - 1 - i) % (places - 1);
      const auto [one, other] = std::minmax(next, fixed_or_previous);
      if (other >= gpus) continue;
      rounds.back().push_back({one, other, name_of(node, one) + " ↔ " + name_of(node, other)});
    }
  }
  return rounds;
}

Findings prove(const Node& node, const Pair& pair) {
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);  // as the names of the GPUs
  ::setenv("CUDA_LAUNCH_BLOCKING", "0", 1);        // one kernel waits for another
  const auto [one, other, name] = pair;
  const CudaDriver cuda(node.cuda_library);
  if (!cuda.is_complete()) return {unknown(node.cuda_library + " cannot be opened, or is too old")};
  require(cuda.init(0), "cuInit");
  int count = 0;
  require(cuda.device_count(&count), "cuDeviceGetCount");
  const bool is_alone = one == other;
  if (other >= count) return {unknown(name + ": CUDA shows only " + base::counted(count, "GPU"))};
  const Gpu first(cuda, one, name_of(node, one));
  const Gpu second(cuda, other, name_of(node, other));
  // The owner of a flag answers in the other direction.
  if (!is_alone && (!first.reaches(second) || !second.reaches(first)))
    return {ok(name + ": no peer access, so NCCL goes through host memory")};
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
  if (findings.empty()) findings.push_back(ok(name + ": all writes, reads, copies and flags arrive in order"));
  return findings;
}

// Joins findings that differ only in their pair or direction, since all GPUs of a node mostly have the same trouble.
// `check` of a finding is its pair.
Findings joined(const Findings& all) {
  constexpr std::size_t kMostWays = 6;
  const auto is_same = [](const Finding& one, const Finding& other) {
    return one.grade == other.grade && one.text == other.text && one.fallback == other.fallback;
  };
  Findings result;
  std::vector<std::vector<std::string>> ways;  // of each finding of `result`
  for (Finding finding : all) {
    std::string way = std::exchange(finding.check, kName);
    const std::size_t colon = finding.text.find(": ");
    if (finding.text.starts_with("GPU ") && colon != std::string::npos) {
      way = finding.text.substr(0, colon);
      finding.text.erase(0, colon + 2);
    }
    const auto same = std::ranges::find_if(result, [&](const Finding& each) { return is_same(each, finding); });
    const auto place = static_cast<std::size_t>(same - result.begin());
    if (same == result.end()) {
      result.push_back(std::move(finding));
      ways.emplace_back();
    }
    ways[place].push_back(std::move(way));
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::ranges::sort(ways[i]);
    const std::size_t shown = std::min(ways[i].size(), kMostWays);
    const std::string more = ways[i].size() > shown ? " and " + std::to_string(ways[i].size() - shown) + " more" : "";
    result[i].text.insert(0, base::join(std::span(ways[i]).first(shown), ", ") + more + ": ");
  }
  return result;
}

// Finds nothing if each GPU keeps enough memory for programs that use it.
Findings check_room(const Node& node) {
  const auto free = least_free_memory(node);
  if (!free) return {unknown("it is not known how much memory of the GPUs is free: " + free.error().message)};
  if (free.value() >= kMemoryOfPair + kMemoryOfOthers) return {};
  return {unknown("a GPU has " + base::human_bytes(free.value()) + " free. The proof takes " +
                      base::human_bytes(kMemoryOfPair) + ", and leaves " + base::human_bytes(kMemoryOfOthers) +
                      " to programs that use the GPUs",
                  "ddplaunch doctor --deep when they have ended")};
}

}  // namespace

Findings check_peer_writes(const Node& node) {
  if (!node.gpus_failure.empty()) return {unknown("the files of the driver cannot be read")};
  if (node.gpus.empty()) return {ok("there is no GPU")};
  const auto gpus = static_cast<int>(node.visible().size());
  if (gpus == 0) return {unknown("CUDA_VISIBLE_DEVICES shows no GPU")};
  const auto end = std::chrono::steady_clock::now() + kProofLimit;
  const Check room = {kName, check_room};
  if (Findings lack = run_checks(std::span(&room, 1), node, kRoomLimit); !lack.empty()) return lack;
  Findings findings;
  std::size_t left_out = 0;
  bool is_stuck = false;
  std::chrono::milliseconds longest{0};
  std::chrono::milliseconds least = kFirstRound;  // that a round may need
  for (const std::vector<Pair>& round : rounds_of(node, gpus)) {
    const auto began = std::chrono::steady_clock::now();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - began);
    if (is_stuck || left < least) {
      left_out += round.size();
      continue;
    }
    std::vector<Check> checks;
    for (const Pair& pair : round)
      checks.push_back({pair.name, [&pair](const Node& each) { return prove(each, pair); }, Grade::fail});
    const Findings found = run_checks(checks, node, left);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
    // A GPU that is still busy keeps others waiting, which are not to blame.
    is_stuck = took >= kStepLimit && std::ranges::find(found, Grade::fail, &Finding::grade) != found.end();
    longest = std::max(longest, took);
    least = std::max(kLeastRound, 2 * longest);
    std::ranges::copy(found, std::back_inserter(findings));
  }
  findings = joined(findings);
  if (left_out > 0) {
    const std::string count = base::counted(static_cast<std::int64_t>(left_out), "pair", "was", "were");
    findings.push_back(unknown(count + " not tried, because " +
                               (is_stuck ? "a GPU does not come to an end" : "there was no time left")));
    findings.back().check = kName;
  }
  return findings;
}

}  // namespace ddp::launcher::doctor
