// The collective mismatch check: what the ranks of one node call, shown to each other and compared: a difference is
// found by whoever comes later, before he enters a collective that would hang or corrupt.
#pragma once

#include <optional>
#include <string>

#include "runtime/call/call.h"
#include "runtime/peers/node_group.h"

namespace ddp::internal {

// Shows this rank's call to its peers. Once a call, in the order of their numbers.
void show_call(NodeGroup& node, const Call& call);

// " (train.cpp:88)", or nothing where that is not known.
std::string place_in_program(const char* file, int line);

// What messages say of a call and its place in the program.
std::string describe_with_place(const Call& call);

// What this call gives each rank of its group and takes from each, of `rank` in a group of `size`. Empty where all
// ranks must give equal counts, and in groups of more than kComparedParts.
std::optional<PartCounts> part_counts(const Call& call, int rank, int size);

// What part_counts() of this rank and of a peer that calls the same says, if they do not fit: which rank gives which
// how many elements too many or too few. Empty if they do.
std::string part_difference(int rank, const PartCounts& own, int peer, const PartCounts& theirs);

// The sentence for two ranks that call different things.
std::string describe_difference(int rank, const std::string& own, int other_rank, const std::string& other);

// The record of a peer's call of this number, or null if he has not called yet, or long ago.
const CallRecord* record_of(const NodeGroup& node, std::size_t peer, std::uint64_t sequence);

// The same where all ranks have called: each has arrived after it had shown this call.
const CallRecord& shown_call(const NodeGroup& node, std::size_t peer, const Call& call);

// Throws `mismatch` that names both ranks, both calls and both places in the program, if a peer has called something
// else under this number.
void compare_calls(const NodeGroup& node, const Call& call);

}  // namespace ddp::internal
