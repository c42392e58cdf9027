#include "runtime/group/agreement.h"

#include <ddp/progress.h>

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "runtime/group/group_errors.h"

namespace ddp::internal {
namespace {

std::string first_difference(const std::string& ours, const std::string& theirs, std::size_t rank) {
  const std::vector<std::string> left = base::split(ours, '\n');
  const std::vector<std::string> right = base::split(theirs, '\n');
  const auto line = [](const std::vector<std::string>& lines, std::size_t i) {
    return i < lines.size() && !lines[i].empty() ? lines[i] : "nothing more";
  };
  std::size_t i = 0;
  while (line(left, i) == line(right, i) && i < std::max(left.size(), right.size())) ++i;
  return "rank 0 has " + line(left, i) + ", rank " + std::to_string(rank) + " has " + line(right, i);
}

}  // namespace

std::string describe(DataType type, std::span<const std::int64_t> shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return std::string(to_string(type)) + "[" + base::join(sizes, "x") + "]";
}

std::string describe(const Tensor& tensor) {
  return "'" + tensor.name + "' " + describe(tensor.data.type, tensor.shape);
}

std::optional<std::size_t> elements_of(std::span<const std::int64_t> shape) {
  std::size_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(product, static_cast<std::size_t>(size), &product)) return std::nullopt;
  }
  return product;
}

std::string describe_all(std::span<const Tensor> tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) text += describe(tensor) + "\n";
  return text;
}

std::string find_shape_fault(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    const auto elements = elements_of(tensor.shape);
    if (!elements) return impossible_shape_text(describe(tensor));
    if (*elements != tensor.data.count) return wrong_shape_text(describe(tensor), tensor.data.count, *elements);
  }
  return "";
}

std::string find_fault(const ProcessGroup& group, std::span<const Tensor> tensors) {
  const std::string fault = find_shape_fault(tensors);
  if (!fault.empty() || group.device().type == DeviceType::cuda) return fault;
  for (const Tensor& tensor : tensors) {
    if (tensor.data.device != DeviceType::cpu) {
      return out_of_reach_text("tensor " + describe(tensor), group.backend()) + ", or copy the tensor to host memory";
    }
  }
  return "";
}

std::vector<std::int64_t> gather_hashes(const ProcessGroup& group, std::uint64_t hash, const char* what) {
  std::vector<std::int64_t> mine = {static_cast<std::int64_t>(hash)};
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(all, mine, {.name = what}).wait();
  return all;
}

std::optional<std::string> first_disagreement(const ProcessGroup& group, const std::string& text, const char* what) {
  base::Fnv1a64 hash;
  hash.update(text);
  const std::vector<std::int64_t> all = gather_hashes(group, hash.value(), what);
  if (std::all_of(all.begin(), all.end(), [&](std::int64_t other) { return other == all[0]; })) return std::nullopt;

  const std::vector<std::string> texts = group.all_gather_bytes(text);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] != texts[0]) return first_difference(texts[0], texts[rank], rank);
  }
  return std::nullopt;
}

}  // namespace ddp::internal

namespace ddp {

bool should_stop(const ProcessGroup& group) {
  const auto answers = internal::gather_hashes(group, should_stop() ? 1 : 0, "should_stop");
  return std::ranges::any_of(answers, [](std::int64_t answer) { return answer != 0; });
}

}  // namespace ddp
