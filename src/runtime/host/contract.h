// What the ranks of one machine call, shown to each other and compared: a difference is found by whoever comes later,
// before he enters a collective that would hang or corrupt.
#pragma once

#include "runtime/group/call.h"
#include "runtime/host/host_group.h"

namespace ddp {

// Shows this rank's call to its peers. Once a call, in the order of their numbers.
void show_call(HostGroup& host, const Call& call);

// The record of a peer's call of this number, or null if he has not called yet, or long ago.
const CallRecord* record_of(const HostGroup& host, std::size_t peer, std::uint64_t sequence);

// Throws `mismatch` that names both ranks, both calls and both places in the program, if a peer has called something
// else under this number.
void compare_calls(const HostGroup& host, const Call& call);

}  // namespace ddp
