// This header handles IP addresses as values. It finds the peer of a connection and whether an address is on this node.
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

// An IPv4 address that an IPv6 socket shows as ::ffff:10.0.0.1 is stored as the IPv4 address 10.0.0.1.
struct IpAddress {
  bool is_v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // only the first four for IPv4
  std::uint32_t interface = 0;           // interface of a link-local IPv6 address

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

// Returns a host name or an address with its port, as a user would write it: "node0:29500", "[::1]:29500".
std::string host_and_port(const std::string& host, std::uint16_t port);

// Returns std::nullopt for an address that is neither IPv4 nor IPv6.
std::optional<Endpoint> to_endpoint(const sockaddr_storage& address);

// Return the two ends of a connection, or std::nullopt if `fd` is not connected (any more).
std::optional<Endpoint> peer_endpoint(int fd);
std::optional<Endpoint> own_endpoint(int fd);

// Returns whether the address is a loopback address or belongs to an interface of this network namespace. Also returns
// true if that cannot be determined because no descriptors are left. Takes some microseconds.
bool is_own_address(const IpAddress& address);

// Returns the name of the interface that has this address, such as "eth0". Returns "" if there is none, or if it cannot
// be determined.
std::string interface_of(const IpAddress& address);

// Returns this node's address as seen by `host` (a name or an address), according to the routes. Nothing is sent.
// Returns std::nullopt if there is no route to it.
std::optional<IpAddress> own_address_towards(const std::string& host);

// Returns the addresses of `host` (a name or an address), or why the system knows none. It may block for some time.
base::Result<std::vector<IpAddress>> addresses_of(const std::string& host);

// Returns whether an address of `host` belongs to this node, or std::nullopt if the name cannot be resolved. It may
// block for some time.
std::optional<bool> is_own_host(const std::string& host);

}  // namespace ddp::net
