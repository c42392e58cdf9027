// These functions check whether all ranks are about to do the same. Ranks call them before a collective that would
// otherwise hang or corrupt data.
#pragma once

#include <ddp/process_group.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::internal {

// These functions return text such as "f32[64x32]", or "'weight' f32[64x32]" with the tensor's name.
std::string describe(DataType type, std::span<const std::int64_t> shape);
std::string describe(const Tensor& tensor);

// Returns the number of a tensor's elements, or std::nullopt if a size is negative or the product is too large.
std::optional<std::size_t> elements_of(std::span<const std::int64_t> shape);

// Returns one line per tensor, with everything that must be equal on all ranks.
std::string describe_all(std::span<const Tensor> tensors);

// Returns the fault of tensors whose shape does not fit the data, as text. Returns an empty string if there is none.
std::string find_shape_fault(std::span<const Tensor> tensors);
// Does the same for tensors that the group copies to host memory. GPU memory that its backend cannot reach is a fault.
std::string find_fault(const ProcessGroup& group, std::span<const Tensor> tensors);

// Returns the hash of every rank, in rank order; all ranks call it. `what` is the name of the call, for messages.
std::vector<std::int64_t> gather_hashes(const ProcessGroup& group, std::uint64_t hash, const char* what);

// Returns std::nullopt if all ranks have the same text; all ranks call it. Otherwise it returns the first line in which
// a rank differs from rank 0, the same on every rank. An example is "rank 0 has 'head' f32[10x64], rank 2 has 'head'
// f32[12x64]". Ranks first exchange hashes of eight bytes each. They exchange the texts only if the hashes differ.
std::optional<std::string> first_disagreement(const ProcessGroup& group, const std::string& text, const char* what);

}  // namespace ddp::internal
