// IP addresses as values: who is at the other end of a connection, and whether that is this machine.
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddp::net {

// An IPv4 address that a socket of IPv6 shows as ::ffff:10.0.0.1 is the IPv4 address 10.0.0.1.
struct IpAddress {
  bool is_v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // of IPv4: the first four
  std::uint32_t interface = 0;           // of a link-local IPv6 address: where it counts

  bool is_loopback() const;
  std::string text() const;  // "10.0.0.1", "fe80::1%eth0"

  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};

struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;

  std::string text() const;  // "10.0.0.1:29500", "[::1]:29500"

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "node0:29500", "[::1]:29500": a host name or an address with its port, as a user would write it.
std::string host_and_port(const std::string& host, std::uint16_t port);

// Nothing for an address that is neither IPv4 nor IPv6.
std::optional<Endpoint> to_endpoint(const sockaddr_storage& address);

// The two halves of a connection; nothing if `fd` is not connected (any more).
std::optional<Endpoint> peer_endpoint(int fd);
std::optional<Endpoint> own_endpoint(int fd);

// A loopback address, or one of an interface of this network namespace; also one of which that cannot be found out, for
// want of descriptors. Some microseconds.
bool is_own_address(const IpAddress& address);

// The name of the interface that has this address: "eth0". Empty: none, or it cannot be found out.
std::string interface_of(const IpAddress& address);

// The address under which this machine is seen by `host` (a name or an address), as the routes say; nothing is sent.
// Nothing if there is no way to it.
std::optional<IpAddress> own_address_towards(const std::string& host);

// The addresses that `host` (a name or an address) stands for, or why the system knows none. May take its time.
base::Result<std::vector<IpAddress>> addresses_of(const std::string& host);

// Whether an address that `host` stands for is this machine's; nothing: the name cannot be resolved. May take its time.
std::optional<bool> is_own_host(const std::string& host);

}  // namespace ddp::net
