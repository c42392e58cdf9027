// Whose process is at the other end of a TCP connection within this machine. The kernel tells; the peer is not asked.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "net/address.h"

namespace ddp::net {

// The user who opened the peer's socket, as our user namespace sees that user.
struct PeerOwner {
  uid_t uid = 0;
  std::uint64_t inode = 0;  // of the socket, as in /proc/PID/fd; never 0

  friend bool operator==(const PeerOwner&, const PeerOwner&) = default;
};

// The kernel's socket diagnostics (about ten microseconds a question), or where they are refused (seccomp, gVisor) the
// tables in /proc/net, which are read from end to end. Which of them answers here is tried out with a socket of our
// own. Not thread-safe; keeps one descriptor open, which no child inherits.
class PeerLookup {
 public:
  enum class Source { diagnostics, tables, none };

  // `best`, or what comes after it. `table_folder` is where "tcp" and "tcp6" lie.
  explicit PeerLookup(Source best = Source::diagnostics, std::string table_folder = "/proc/net");

  Source source() const { return source_; }

  // Nothing if the peer's socket is not of this network namespace, or if no process holds it any more: the kernel says
  // that a socket whose process is gone belongs to root, which must not be believed.
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

// The uid by which our user namespace shows all users that it does not know; nothing where it knows all. Whoever owns a
// socket under this uid may be anybody.
std::optional<uid_t> uid_of_unknown_users();

// The parts of it that are pure. `half` is what the socket itself calls its own end. A socket that listens, or is not
// connected yet, is not the one.
std::optional<PeerOwner> find_in_socket_table(std::string_view table, const Endpoint& half, const Endpoint& other_half);
std::optional<uid_t> uid_of_unknown_users(std::string_view uid_map, std::string_view overflow_uid);

}  // namespace ddp::net
