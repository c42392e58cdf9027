// The collective mismatch check compares the calls that the ranks of one node publish to each other. The rank that
// calls later finds a difference before it enters a collective that would hang or corrupt data.
#pragma once

#include <optional>
#include <string>

#include "runtime/call/call.h"
#include "runtime/peers/node_group.h"

namespace ddp::internal {

// Publishes this rank's call to its peers. It is called once per call, in the order of the calls' numbers.
void show_call(NodeGroup& node, const Call& call);

// Returns " (train.cpp:88)", or an empty string if the place is not known.
std::string place_in_program(const char* file, int line);

// Returns the text by which messages describe a call and its place in the program.
std::string describe_with_place(const Call& call);

// Returns how many elements this call gives to each rank of its group, and takes from each. `rank` makes the call, in a
// group of `size`. Returns std::nullopt if all ranks must give equal counts, or if the group has more than
// kComparedParts ranks.
std::optional<PartCounts> part_counts(const Call& call, int rank, int size);

// Compares part_counts() of this rank and of a peer that calls the same. If they do not fit, returns a sentence that
// names both ranks and both counts. Otherwise returns an empty string.
std::string part_difference(int rank, const PartCounts& own, int peer, const PartCounts& theirs);

// Returns the sentence for two ranks that call different collectives.
std::string describe_difference(int rank, const std::string& own, int other_rank, const std::string& other);

// Returns the record of a peer's call with this number, or null if the peer has not called yet, or called long ago.
const CallRecord* record_of(const NodeGroup& node, std::size_t peer, std::uint64_t sequence);

// Does the same if all ranks have called. Each rank has arrived after it published this call, so the record exists.
const CallRecord& shown_call(const NodeGroup& node, std::size_t peer, const Call& call);

// Throws `mismatch` if a peer has called something else under this number. The error names both ranks, both calls and
// both places in the program.
void compare_calls(const NodeGroup& node, const Call& call);

}  // namespace ddp::internal
