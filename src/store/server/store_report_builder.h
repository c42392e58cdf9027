// These functions describe the server's clients: the report for INSPECT, and the sentence about a wait that ended in
// vain.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "store/server/served_client.h"
#include "store/server/store_table.h"
#include "wire/store_report.h"

namespace ddp::store {

wire::StoreReport build_report(const StoreTable& table, std::span<const ServedClient* const> clients, TimePoint now);

// Returns the waits that began at this moment or earlier: see StoreServer::long_waits().
std::vector<LongWait> build_long_waits(const StoreTable& table, std::span<const ServedClient* const> clients,
                                       TimePoint before);

// Returns text such as "rank 1 (node0:4711) gave up waiting for key '/x' after 30 s; ranks 0, 1 wait or waited for it;
// rank 2 is not connected". `how` is "gave up waiting", or another reason why the wait ended.
std::string describe_given_up(const StoreTable& table, const ServedClient& session, const StoreWait& wait,
                              const std::string& how, TimePoint now);

}  // namespace ddp::store
