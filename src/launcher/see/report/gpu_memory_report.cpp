#include "launcher/see/report/gpu_memory_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/device_binding.h"
#include "launcher/start/plan/used_gpu.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using Source = GpuMemoryError::Source;

struct ErrorWords {
  std::string_view words;  // text that only this error contains
  Source source;
};
// PyTorch's own allocator adds numbers to its words. The other errors have none, except the runtime's.
constexpr std::array kErrorWords = {
    ErrorWords{"CUDA out of memory. ", Source::pytorch},
    ErrorWords{"out of GPU memory:", Source::runtime},
    ErrorWords{"CUDA_ERROR_OUT_OF_MEMORY", Source::cuda},
    ErrorWords{"cudaErrorMemoryAllocation", Source::cuda},
    ErrorWords{"CUDA error: out of memory", Source::cuda},
    ErrorWords{"Cuda failure 2 'out of memory'", Source::nccl},  // NCCL 2.24 and newer
    ErrorWords{"Cuda failure 'out of memory'", Source::nccl},
    ErrorWords{"CUBLAS_STATUS_ALLOC_FAILED", Source::cublas},
};

constexpr std::size_t kMostOthers = 64;

// Reads a size such as "2.00 GiB", "14.75 MiB" or "512 bytes" at the beginning of the text.
std::optional<std::uint64_t> leading_bytes(std::string_view text) {
  constexpr std::array<std::string_view, 6> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed).ptr;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(' ')) return std::nullopt;
  text.remove_prefix(1);
  for (std::size_t unit = 0; unit < kUnits.size(); ++unit) {
    if (!text.starts_with(kUnits[unit])) continue;
    const double bytes = std::ldexp(value, static_cast<int>(10 * unit));
    return bytes < 0x1p62 ? std::optional(static_cast<std::uint64_t>(std::llround(bytes))) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> bytes_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : leading_bytes(text.substr(at + words.size()));
}

// Returns the size before the words: the words are a number and a unit, as in "10.76 GiB total capacity".
std::optional<std::uint64_t> bytes_before(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const std::size_t unit = text.rfind(' ', at - 1);
  if (unit == std::string_view::npos || unit == 0) return std::nullopt;
  const std::size_t number = text.rfind(' ', unit - 1);
  return leading_bytes(text.substr(number == std::string_view::npos ? 0 : number + 1));
}

std::optional<int> number_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + words.size());
  const auto number = base::parse_integer(text.substr(0, text.find_first_not_of("0123456789")), 0, 1 << 30);
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Returns the processes in sentences such as "Process 4711 has 39.38 GiB memory in use."
std::vector<GpuMemoryError::Other> others_in(std::string_view text) {
  constexpr std::string_view kProcess = "Process ";
  std::vector<GpuMemoryError::Other> others;
  for (std::size_t at = 0; others.size() < kMostOthers; ++at) {
    at = text.find(kProcess, at);
    if (at == std::string_view::npos) break;
    const std::string_view sentence = text.substr(at);
    const auto pid = number_after(sentence, kProcess);
    const std::size_t has = sentence.find(" has ");
    const auto bytes = has == std::string_view::npos ? std::nullopt : leading_bytes(sentence.substr(has + 5));
    if (pid && bytes) others.push_back({*pid, *bytes});
  }
  return others;
}

std::optional<std::uint64_t> difference(std::optional<std::uint64_t> all, std::optional<std::uint64_t> part) {
  return all && part && *all >= *part ? std::optional(*all - *part) : std::nullopt;
}

// PyTorch 2 writes sentences: "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB is
// free." PyTorch 2.1 writes "capacty".
void read_sentences(std::string_view text, GpuMemoryError& error) {
  error.device = number_after(text, "GPU ");
  error.asked_bytes = bytes_after(text, "Tried to allocate ");
  // PyTorch 2.14 writes this if the program has limited its own memory.
  if (!error.asked_bytes) error.asked_bytes = bytes_after(text, "Requested size: ");
  error.total_bytes = bytes_after(text, "total capacity of ");
  if (!error.total_bytes) error.total_bytes = bytes_after(text, "total capacty of ");
  error.free_bytes = bytes_after(text, " of which ");
  error.own_bytes = bytes_after(text, "this process has ");
  error.unused_bytes = bytes_before(text, " is reserved by PyTorch but unallocated");
  error.others = others_in(text);
}

// PyTorch 1 writes a list: "Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.51 GiB already allocated;
// 14.75 MiB free; 9.71 GiB reserved in total by PyTorch)". PyTorch 1.0 does not write the reserved memory.
void read_list(std::string_view text, GpuMemoryError& error) {
  error.device = number_after(text, "(GPU ");
  error.asked_bytes = bytes_after(text, "Tried to allocate ");
  error.total_bytes = bytes_before(text, " total capacity;");
  error.free_bytes = bytes_before(text, " free;");
  const auto allocated = bytes_before(text, " already allocated;");
  const auto reserved = bytes_before(text, " reserved in total");
  error.own_bytes = reserved ? reserved : allocated;
  error.unused_bytes = difference(reserved, allocated);
}

// The runtime writes "out of GPU memory: 1.5 GiB were requested on GPU 0, where 12 MiB of 79 GiB are free".
void read_runtime(std::string_view text, GpuMemoryError& error) {
  error.device = number_after(text, " on GPU ");
  error.asked_bytes = bytes_before(text, " were requested");
  error.free_bytes = bytes_after(text, ", where ");
  error.total_bytes = bytes_before(text, " are free");
}

using Source = GpuMemoryError::Source;
using Known = GpuUsers::Known;

constexpr std::size_t kShownNeighbours = 8;
// PyTorch's unused memory is worth a remedy from this part of the GPU's memory on.
constexpr std::uint64_t kNotablePart = 10;
constexpr std::uint64_t kNotableBytes = std::uint64_t{256} << 20;  // memory of another process that is worth a remedy

std::string gpu_name(const GpuMemoryFailure& failure) {
  if (failure.gpu) return "GPU " + std::to_string(*failure.gpu);
  return "the GPU";
}

std::string reported_by(Source source) {
  if (source == Source::nccl) return ", as NCCL reports";
  return source == Source::cublas ? ", as cuBLAS reports" : "";
}

// Returns text such as "2 GiB requested, 1.3 GiB of 79 GiB free, 77 GiB used by this rank".
std::string numbers_of(const GpuMemoryError& error) {
  std::vector<std::string> parts;
  if (error.asked_bytes) parts.push_back(base::human_bytes(*error.asked_bytes) + " requested");
  if (error.free_bytes) {
    const std::string total = error.total_bytes ? " of " + base::human_bytes(*error.total_bytes) : "";
    parts.push_back(base::human_bytes(*error.free_bytes) + total + " free");
  }
  if (error.own_bytes) parts.push_back(base::human_bytes(*error.own_bytes) + " used by this rank");
  return base::join(parts, ", ");
}

std::string name_of(const GpuNeighbour& neighbour) {
  const GpuUser& process = neighbour.process;
  std::string text = neighbour.rank ? "rank " + std::to_string(*neighbour.rank) + " of this job (pid " : "pid ";
  text += std::to_string(process.pid);
  if (neighbour.rank) {
    text += ")";
  } else if (neighbour.has_node_pid) {
    text += " of the node";
  } else if (!process.name.empty()) {
    text += " (" + process.name + (process.user ? ", user " + std::to_string(*process.user) : "") + ")";
  }
  return process.bytes ? text + ": " + base::human_bytes(*process.bytes) : text;
}

std::string neighbours_line(const GpuMemoryFailure& failure) {
  std::vector<std::string> names;
  for (const GpuNeighbour& neighbour : failure.neighbours) {
    if (names.size() == kShownNeighbours) break;
    names.push_back(name_of(neighbour));
  }
  const std::size_t more = failure.neighbours.size() - names.size();
  if (more > 0) names.push_back(base::counted(static_cast<std::int64_t>(more), "more process"));
  const bool has_node_pids =
      std::ranges::any_of(failure.neighbours, [](const GpuNeighbour& neighbour) { return neighbour.has_node_pid; });
  std::string note = failure.is_partial ? "; processes of other users are not visible to ddplaunch here" : "";
  if (failure.is_in_container && !has_node_pids) note += "; processes outside of this container are not visible";
  if (!names.empty()) return "also on " + gpu_name(failure) + ": " + base::join(names, "; ") + note;
  if (failure.known == Known::nothing) return "ddplaunch cannot see which processes use " + gpu_name(failure);
  return "no other process uses " + gpu_name(failure) + " after the failure" + note;
}

// Returns the ranks of this job on the GPU, except the one that failed.
std::vector<int> ranks_on(const GpuMemoryFailure& failure) {
  std::vector<int> ranks;
  for (const GpuNeighbour& neighbour : failure.neighbours) {
    if (neighbour.rank) ranks.push_back(*neighbour.rank);
  }
  return ranks;
}

// Returns whether the rank has put data on a GPU that the plan gives to another rank.
bool uses_others_gpu(const GpuMemoryFailure& failure) {
  return failure.gpu && failure.planned && failure.gpu != failure.planned;
}

// Returns the process outside of this job that holds most memory, if it holds a notable part. In a container, the pid
// of such a process is of no use, and it may be the rank itself.
std::optional<pid_t> largest_outside(const GpuMemoryFailure& failure) {
  const GpuUser* largest = nullptr;
  for (const GpuNeighbour& neighbour : failure.neighbours) {
    const GpuUser& process = neighbour.process;
    if (neighbour.rank || neighbour.has_node_pid || process.bytes.value_or(0) < kNotableBytes) continue;
    if (largest == nullptr || *process.bytes > *largest->bytes) largest = &process;
  }
  return largest == nullptr ? std::nullopt : std::optional(largest->pid);
}

bool is_fragmented(const GpuMemoryError& error) {
  if (!error.unused_bytes) return false;
  const std::uint64_t notable = error.total_bytes.value_or(0) / kNotablePart;
  return (error.asked_bytes && *error.unused_bytes >= *error.asked_bytes) ||
         (notable > 0 && *error.unused_bytes >= notable);
}

std::vector<std::string> remedies_for(const GpuMemoryFailure& failure) {
  const GpuMemoryError& error = failure.error;
  const bool is_torch = error.source == Source::pytorch || error.source == Source::cublas;
  std::vector<std::string> remedies;
  if (!ranks_on(failure).empty() || uses_others_gpu(failure)) {
    remedies.emplace_back(is_torch ? "give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK) before anything "
                                     "else, and torch.load(…, map_location=\"cpu\")"
                                   : "give each rank its own GPU (its local rank selects it)");
  }
  if (const auto pid = largest_outside(failure)) {
    remedies.push_back("end pid " + std::to_string(*pid) + ", or choose other GPUs with --gpus");
  }
  if (is_fragmented(error)) {
    remedies.push_back("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch holds " +
                       base::human_bytes(*error.unused_bytes) + " that it does not use)");
  }
  remedies.emplace_back("a smaller batch with gradient accumulation");
  remedies.emplace_back(is_torch ? "activation checkpointing (torch.utils.checkpoint)"
                                 : "ddp::ShardOptimizer, if the program uses ddp::DataParallel");
  return remedies;
}

std::optional<int> planned_gpu(const LaunchPlan& plan, int local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  return index < plan.device_indices.size() ? plan.device_indices[index] : std::nullopt;
}

// Returns the rank of this job that this process is or was.
std::optional<int> rank_of(pid_t pid, const JobOutcome& outcome) {
  for (const WorkerEnd& end : outcome.ends) {
    if (end.pid == pid) return end.rank;
  }
  return std::nullopt;
}

void add(std::vector<GpuNeighbour>& neighbours, GpuNeighbour found) {
  const auto same = std::ranges::find_if(neighbours, [&](const GpuNeighbour& one) {
    return (one.process.pid == found.process.pid && one.has_node_pid == found.has_node_pid) ||
           (one.rank && one.rank == found.rank);
  });
  if (same == neighbours.end()) {
    neighbours.push_back(std::move(found));
    return;
  }
  if (!same->process.bytes) same->process.bytes = found.process.bytes;
  if (same->process.name.empty()) same->process.name = found.process.name;
  if (!same->process.user) same->process.user = found.process.user;
}

}  // namespace

std::optional<GpuMemoryError> find_gpu_memory_error(std::string_view text) {
  const ErrorWords* sign = nullptr;
  std::size_t at = 0;
  for (const ErrorWords& one : kErrorWords) {
    const std::size_t found = text.rfind(one.words);
    if (found == std::string_view::npos) continue;
    // An error with numbers says more than the name of CUDA's error, which may follow it.
    const bool is_better =
        sign == nullptr || (found > at && sign->source != Source::pytorch && sign->source != Source::runtime);
    if (!is_better) continue;
    sign = &one;
    at = found;
  }
  if (sign == nullptr) return std::nullopt;
  GpuMemoryError error;
  error.source = sign->source;
  text.remove_prefix(at);
  const std::string_view line = text.substr(0, text.find('\n'));
  if (error.source == Source::runtime) read_runtime(line, error);
  if (error.source == Source::pytorch) {
    line.find("(GPU ") == std::string_view::npos ? read_sentences(line, error) : read_list(line, error);
  }
  return error;
}

std::optional<GpuMemoryError> gpu_memory_error_of(const std::optional<ErrorRecord>& error,
                                                  const std::vector<std::string>& last_lines) {
  if (error) {
    if (auto found = find_gpu_memory_error(error->message)) return found;
    if (error->is_secondary || error->is_mismatch || error->is_timeout) return std::nullopt;
  }
  // NCCL's reason is in the lines after the exception's first line.
  const std::string text = base::join(last_lines, "\n");
  const std::size_t traceback = text.rfind(kTracebackBegin);
  return find_gpu_memory_error(std::string_view(text).substr(traceback == std::string::npos ? 0 : traceback));
}

std::optional<int> gpu_of_error(const LaunchPlan& plan, const WorkerEnd& end, const GpuMemoryError& error) {
  if (const auto used = find_gpu(plan, end.gpu_uuid)) return used;
  const auto local_rank = static_cast<std::size_t>(end.local_rank);
  if (error.device && local_rank < plan.visible_devices.size()) {
    const auto& own = plan.visible_devices[local_rank];
    const auto visible = own ? own : find_variable(plan.inherited_environment, wire::env::kCudaVisibleDevices);
    const std::vector<VisibleGpu> gpus = visible_gpus(visible, plan.node_gpus);
    const auto number = static_cast<std::size_t>(*error.device);
    return number < gpus.size() ? gpus[number].index : std::nullopt;
  }
  return planned_gpu(plan, end.local_rank);
}

GpuMemoryFailure make_gpu_memory_failure(const LaunchPlan& plan, const JobOutcome& outcome, const GpuMemoryError& error,
                                         const GpuUsers& users) {
  const WorkerEnd& culprit = *outcome.culprit();
  GpuMemoryFailure failure{error, gpu_of_error(plan, culprit, error), planned_gpu(plan, culprit.local_rank)};
  failure.known = users.known;
  failure.is_partial = users.is_partial;
  failure.is_in_container = users.is_in_container;
  for (const GpuMemoryError::Other& other : error.others) {
    // PyTorch has the pids from the driver.
    const auto rank = users.is_in_container ? std::nullopt : rank_of(other.pid, outcome);
    add(failure.neighbours, {{other.pid, other.bytes}, rank, users.is_in_container});
  }
  for (const WorkerEnd& end : outcome.ends) {
    const bool is_same = !end.gpu_uuid.empty() && end.gpu_uuid == culprit.gpu_uuid;
    if (is_same && end.rank != culprit.rank) add(failure.neighbours, {{end.pid}, end.rank});
  }
  for (const GpuUser& user : users.users) {
    if (user.pid == culprit.pid && !users.has_node_pids) continue;
    const auto rank = users.has_node_pids ? std::nullopt : rank_of(user.pid, outcome);
    add(failure.neighbours, {user, rank, users.has_node_pids});
  }
  return failure;
}

std::vector<std::string> gpu_memory_lines(const GpuMemoryFailure& failure) {
  const std::string numbers = numbers_of(failure.error);
  const std::string planned =
      uses_others_gpu(failure) ? " (planned for this rank: GPU " + std::to_string(*failure.planned) + ")" : "";
  return {"out of GPU memory on " + gpu_name(failure) + planned + reported_by(failure.error.source) +
              (numbers.empty() ? "" : ": " + numbers),
          neighbours_line(failure), "try: " + base::join(remedies_for(failure), "; ")};
}

}  // namespace ddp::launcher
