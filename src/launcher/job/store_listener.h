// Where the store of a job, or of `ddplaunch store`, listens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/server/store_server.h"

namespace ddp::launcher {

// An address that is a name is looked up, which may take as long as the resolver takes; the first of its addresses that
// belongs to this machine is used. `option` is the one by which the user may give another address. `for_others`: other
// machines have to reach it; a name that stands for a loopback address here, as many machines have it for their own, is
// another address for them, so that all are listened at. The failure is a sentence without a full stop.
base::Result<std::unique_ptr<store::StoreServer>> listen_at(const std::string& address, std::uint16_t port,
                                                            const store::StoreServerOptions& options,
                                                            const std::string& option, bool for_others = false);

// What the user can do about a failure of listen_at(): " Do this." Empty if the failure says it already or nothing is
// known. The options are those that choose the address and the port.
std::string listen_remedy(std::string_view failure, const std::string& address_option, const std::string& port_option);

}  // namespace ddp::launcher
