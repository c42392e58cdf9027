// Whether all ranks are about to do the same thing: asked before a collective that would hang or corrupt if they are
// not.
#pragma once

#include <ddp/process_group.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::internal {

// "f32[64x32]", and with its name "'weight' f32[64x32]".
std::string describe(DataType type, std::span<const std::int64_t> shape);
std::string describe(const Tensor& tensor);

// The number of a tensor's elements; nothing if a size is negative or the product too large.
std::optional<std::size_t> elements_of(std::span<const std::int64_t> shape);

// One line a tensor: what must be equal on all ranks.
std::string describe_all(std::span<const Tensor> tensors);

// What is wrong with tensors: a shape that is not that of the data. Empty if nothing.
std::string find_shape_fault(std::span<const Tensor> tensors);
// The same for tensors that the host reads: GPU memory, too.
std::string find_fault(std::span<const Tensor> tensors);

// Collective. The hash of every rank, in rank order. `what`: the name of the call, for messages.
std::vector<std::int64_t> gather_hashes(const ProcessGroup& group, std::uint64_t hash, const char* what);

// Collective. Nothing if all ranks have the same text, else, the same on every rank, the first line in which a rank
// differs from rank 0: "rank 0 has 'head' f32[10x64], rank 2 has 'head' f32[12x64]". Ranks exchange hashes first: eight
// bytes each, and only those that differ pay for the texts.
std::optional<std::string> first_disagreement(const ProcessGroup& group, const std::string& text, const char* what);

}  // namespace ddp::internal
