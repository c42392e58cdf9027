#include "launcher/run/job/store_listener.h"

#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "launcher/start/plan/rendezvous_plan.h"
#include "net/address.h"

namespace ddp::launcher {
namespace {

bool is_number(const std::string& address) {
  std::array<char, sizeof(in6_addr)> ignored{};
  return ::inet_pton(AF_INET, address.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), ignored.data()) == 1;
}

// Returns the addresses of a name that the user gave. A numeric address is returned unchanged.
base::Result<std::vector<std::string>> resolve_address(const std::string& address, const std::string& option) {
  // On a node without IPv6, "all interfaces" means those of IPv4.
  if (address == "::") return std::vector<std::string>{"::", "0.0.0.0"};
  if (is_number(address)) return std::vector{address};
  const auto found = net::addresses_of(address);
  if (!found) {
    return base::Failure{"cannot serve the store on " + address + ": the name cannot be resolved (" +
                         found.error().message + "). Give an address of this node with " + option};
  }
  std::vector<std::string> addresses;
  for (const net::IpAddress& each : found.value()) addresses.push_back(each.text());
  return addresses;
}

}  // namespace

base::Result<std::unique_ptr<store::StoreServer>> listen_at(const std::string& address, std::uint16_t port,
                                                            const store::StoreServerOptions& options,
                                                            const std::string& option, bool for_others) {
  auto addresses = resolve_address(address, option);
  if (!addresses) return addresses.error();
  if (for_others && !is_number(address) && address != "localhost" && is_loopback(addresses.value().front())) {
    addresses = resolve_address("::", option);
  }
  base::Failure first;
  for (const std::string& each : addresses.value()) {
    auto server = store::StoreServer::listen(each, port, options);
    if (server) return server;
    if (first.message.empty()) first = server.error();
  }
  return first;
}

std::string listen_remedy(std::string_view failure, const std::string& address_option, const std::string& port_option) {
  const auto is = [&](int error) { return failure.ends_with(std::strerror(error)); };
  if (is(EADDRNOTAVAIL)) return " The address must belong to this node (" + address_option + ").";
  if (is(EADDRINUSE))
    return " Another process listens there; ss -ltnp shows it. " + port_option + "0 takes a free port.";
  if (is(EACCES))
    return " Ports below 1024 need a privilege (CAP_NET_BIND_SERVICE). " + port_option + "0 takes a free port.";
  if (is(EMFILE) || is(ENFILE)) return " Raise the limit of open files (ulimit -n).";
  return "";
}

}  // namespace ddp::launcher
