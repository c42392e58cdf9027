// PeerLookup finds the user whose process holds the other end of a TCP connection within this node. It asks the kernel,
// not the peer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "net/address.h"

namespace ddp::net {

// Identifies the user who opened the peer's socket, as this user namespace shows that user.
struct PeerOwner {
  uid_t uid = 0;
  std::uint64_t inode = 0;  // the socket's inode, as in /proc/PID/fd; never 0

  friend bool operator==(const PeerOwner&, const PeerOwner&) = default;
};

// Uses the kernel's socket diagnostics, which take about ten microseconds per query. If these are refused (seccomp,
// gVisor), it reads the complete tables in /proc/net. The constructor tests which source works with its own socket. It
// is not thread-safe. It keeps one descriptor open, which no child inherits.
class PeerLookup {
 public:
  enum class Source { diagnostics, tables, none };

  // Uses `best` or a later source. `table_folder` contains "tcp" and "tcp6".
  explicit PeerLookup(Source best = Source::diagnostics, std::string table_folder = "/proc/net");

  Source source() const { return source_; }

  // Returns std::nullopt if the peer's socket is not in this network namespace, or if no process holds it any more. The
  // kernel reports root as the owner of such a socket, which must not be trusted.
  std::optional<PeerOwner> owner_of_peer(int fd);

 private:
  std::optional<PeerOwner> find(const Endpoint& half, const Endpoint& other_half);
  std::optional<PeerOwner> ask_kernel(const Endpoint& half, const Endpoint& other_half);
  bool knows_owner_of(int fd);

  Source source_;
  std::string table_folder_;
  base::UniqueFd netlink_;
  std::uint32_t sequence_ = 0;
};

// Returns the uid by which this user namespace shows all users that it does not know, or std::nullopt if it knows all.
// A socket with this uid may belong to any user.
std::optional<uid_t> uid_of_unknown_users();

// These are the parts without I/O. `half` is the socket's own end. A socket that listens, or is not connected yet, does
// not match.
std::optional<PeerOwner> find_in_socket_table(std::string_view table, const Endpoint& half, const Endpoint& other_half);
std::optional<uid_t> uid_of_unknown_users(std::string_view uid_map, std::string_view overflow_uid);

}  // namespace ddp::net
