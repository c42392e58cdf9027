#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/file.h"
#include "base/unique_fd.h"

namespace ddp::net {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

std::optional<Endpoint> endpoint_by(int (*ask)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (ask(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return std::nullopt;
  return to_endpoint(address);
}

// Returns the name of the interface that has the address, or "" if there is none. Returns std::nullopt if that cannot
// be determined.
std::optional<std::string> find_interface(const IpAddress& address) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    sockaddr_storage copy{};
    const bool v6 = each->ifa_addr->sa_family == AF_INET6;
    if (!v6 && each->ifa_addr->sa_family != AF_INET) continue;
    std::memcpy(&copy, each->ifa_addr, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    if (const auto endpoint = to_endpoint(copy); endpoint && endpoint->address == address) return each->ifa_name;
  }
  return "";
}

// Binds a socket to the address, which takes no privilege. Returns 0 or the error.
int bind_to(const IpAddress& address) {
  sockaddr_storage name{};
  name.ss_family = address.is_v6 ? AF_INET6 : AF_INET;
  if (address.is_v6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&name);
    v6->sin6_scope_id = address.interface;
    std::memcpy(&v6->sin6_addr, address.bytes.data(), sizeof v6->sin6_addr);
  } else {
    std::memcpy(&reinterpret_cast<sockaddr_in*>(&name)->sin_addr, address.bytes.data(), sizeof(in_addr));
  }
  const base::UniqueFd fd(::socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return errno;
  return 0;
}

// Returns whether binding reveals own addresses. Some nodes allow binding to any address.
bool binding_tells(bool is_v6) {
  return base::read_file(is_v6 ? "/proc/sys/net/ipv6/ip_nonlocal_bind" : "/proc/sys/net/ipv4/ip_nonlocal_bind")
      .starts_with('0');
}

}  // namespace

bool IpAddress::is_loopback() const {
  if (!is_v6) return bytes[0] == 127;
  return bytes.back() == 1 && std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t byte) { return byte == 0; });
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes.data(), text.data(), text.size());
  if (interface == 0) return text.data();
  std::array<char, IF_NAMESIZE> name{};
  const bool known = ::if_indextoname(interface, name.data()) != nullptr;
  return std::string(text.data()) + "%" + (known ? std::string(name.data()) : std::to_string(interface));
}

std::string host_and_port(const std::string& host, std::uint16_t port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

std::string Endpoint::text() const {
  return host_and_port(address.text(), port);
}

std::optional<Endpoint> to_endpoint(const sockaddr_storage& address) {
  Endpoint result;
  if (address.ss_family == AF_INET) {
    sockaddr_in name{};
    std::memcpy(&name, &address, sizeof name);
    std::memcpy(result.address.bytes.data(), &name.sin_addr, sizeof name.sin_addr);
    result.port = ntohs(name.sin_port);
    return result;
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 name{};
  std::memcpy(&name, &address, sizeof name);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&name.sin6_addr);
  result.port = ntohs(name.sin6_port);
  if (std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes)) {
    std::copy(bytes + kMappedPrefix.size(), bytes + 16, result.address.bytes.begin());
    return result;
  }
  result.address.is_v6 = true;
  std::copy(bytes, bytes + 16, result.address.bytes.begin());
  result.address.interface = name.sin6_scope_id;
  return result;
}

std::optional<Endpoint> peer_endpoint(int fd) {
  return endpoint_by(
      [](int each, sockaddr* address, socklen_t* length) { return ::getpeername(each, address, length); }, fd);
}

std::optional<Endpoint> own_endpoint(int fd) {
  return endpoint_by(
      [](int each, sockaddr* address, socklen_t* length) { return ::getsockname(each, address, length); }, fd);
}

bool is_own_address(const IpAddress& address) {
  if (address.is_loopback()) return true;
  const int error = bind_to(address);
  if (error == EADDRNOTAVAIL) return false;
  // The result is also true if that cannot be determined, because unknown users of this node get fewer rights than
  // other nodes.
  return (error == 0 && binding_tells(address.is_v6)) || find_interface(address) != "";
}

std::string interface_of(const IpAddress& address) {
  return find_interface(address).value_or("");
}

std::optional<IpAddress> own_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), "1", &hints, &first) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(first, &::freeaddrinfo);
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    const base::UniqueFd fd(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), each->ai_addr, each->ai_addrlen) != 0) continue;
    if (const auto own = own_endpoint(fd.get())) return own->address;
  }
  return std::nullopt;
}

base::Result<std::vector<IpAddress>> addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &first);
  if (error != 0) return base::Failure{::gai_strerror(error)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(first, &::freeaddrinfo);
  std::vector<IpAddress> addresses;
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, each->ai_addr, each->ai_addrlen);
    if (const auto endpoint = to_endpoint(address)) addresses.push_back(endpoint->address);
  }
  return addresses;
}

std::optional<bool> is_own_host(const std::string& host) {
  const auto addresses = addresses_of(host);
  if (!addresses) return std::nullopt;
  return std::ranges::any_of(addresses.value(), is_own_address);
}

}  // namespace ddp::net
