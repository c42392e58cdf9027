// Opens the server for the store of a job, or of `ddplaunch store`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/server/store_server.h"

namespace ddp::launcher {

// If the address is a name, it is resolved, which may take as long as the resolver takes. The first of its addresses
// that belongs to this node is used. `option` is the option with which the user may give another address. `for_others`
// means that other nodes must reach the store. Many nodes resolve their own name to a loopback address, but other nodes
// resolve it to another address. In that case the store listens on all interfaces. The failure is a sentence without a
// full stop.
base::Result<std::unique_ptr<store::StoreServer>> listen_at(const std::string& address, std::uint16_t port,
                                                            const store::StoreServerOptions& options,
                                                            const std::string& option, bool for_others = false);

// Returns what the user can do about a failure of listen_at(), as in " Do this.". Returns an empty string if the
// failure says it already, or if no remedy is known. The options are those that choose the address and the port.
std::string listen_remedy(std::string_view failure, const std::string& address_option, const std::string& port_option);

}  // namespace ddp::launcher
