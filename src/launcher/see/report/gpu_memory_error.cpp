#include "launcher/see/report/gpu_memory_error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/text.h"

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
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto whole = base::parse_integer(text.substr(0, digits), 0, 1'000'000'000'000);
  if (!whole) return std::nullopt;
  double value = static_cast<double>(*whole);
  text.remove_prefix(digits);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    for (double digit = 0.1; !text.empty() && text.front() >= '0' && text.front() <= '9'; digit /= 10) {
      value += digit * (text.front() - '0');
      text.remove_prefix(1);
    }
  }
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

}  // namespace ddp::launcher
