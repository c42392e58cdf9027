// These functions place, open and find the Unix sockets over which running launchers show their jobs.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

// Returns the directories for sockets of this user, the preferred one first: $XDG_RUNTIME_DIR if it is set, and a
// directory in `temporary`. If $DDP_SOCKET_DIR is set, it is the only one. `environment` has lines "NAME=value".
std::vector<std::string> socket_folders(std::span<const std::string> environment,
                                        const std::string& temporary = "/tmp");

// Returns why this directory cannot be trusted: it is missing, a link, belongs to another user, or others may use it.
std::optional<base::Failure> check_socket_folder(const std::string& folder);

struct ListeningSocket {
  base::UniqueFd fd;  // non-blocking
  std::string path;   // the caller removes it
};

// Listens in the first of these directories that can be used. The last one is created if it does not exist. The path is
// new, because launchers of several containers may share a directory and have the same pid. Earlier sockets of this pid
// to which no process listens are removed.
base::Result<ListeningSocket> listen_in(const std::vector<std::string>& folders, pid_t pid);

struct ConnectFailure {
  bool is_stale = false;  // nothing listens there any more
  std::string message;
};

// Connects to a socket at this path. The peer is this user or root. The descriptor is non-blocking.
base::Result<base::UniqueFd, ConnectFailure> connect_to(const std::string& path);

// Returns the next connection, non-blocking, or an empty descriptor with errno.
base::UniqueFd accept_from(int listener);

// Returns whether the process at the other end is one of this user or of root.
bool is_own_peer(int fd);

struct FoundSocket {
  std::string path;
  pid_t pid = 0;  // as in the file's name

  friend bool operator==(const FoundSocket&, const FoundSocket&) = default;
};

// Returns the sockets in these directories, by pid. Directories that cannot be trusted are skipped.
std::vector<FoundSocket> find_sockets(const std::vector<std::string>& folders);

// Removes a socket to which no process listens, if it was made since this computer was started. From another computer,
// no process seems to listen to it.
void remove_stale(const FoundSocket& socket);

}  // namespace ddp::launcher
