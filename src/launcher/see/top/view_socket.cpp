#include "launcher/see/top/view_socket.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>

#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/start/facts/node_facts.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kSocketPrefix = "ddplaunch-";
constexpr std::string_view kSocketSuffix = ".sock";
constexpr std::size_t kDigits = 6;

base::Failure socket_failure(const std::string& what, const std::string& path) {
  return {what + " " + path + " (" + std::strerror(errno) + ")"};
}

// Returns std::nullopt if the path is too long for an address.
std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* as_address(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Returns digits that processes on the same running kernel share.
std::string boot_digits() {
  base::Fnv1a64 hash;
  hash.update(base::read_line("/proc/sys/kernel/random/boot_id"));
  return base::hex64(hash.value()).substr(0, kDigits);
}

// Returns the part of the name between the prefix and the suffix, or "" if this is no name of a socket.
std::string_view middle_of(std::string_view name) {
  if (!name.starts_with(kSocketPrefix) || !name.ends_with(kSocketSuffix)) return "";
  name.remove_prefix(kSocketPrefix.size());
  name.remove_suffix(std::min(kSocketSuffix.size(), name.size()));
  return name;
}

// The socket gets its name when it listens. A named socket that refuses a connection has no process any more.
base::Result<ListeningSocket> listen_at(const std::string& path) {
  const std::string unnamed = path + "~";
  const auto address = address_of(unnamed);
  if (!address) return base::Failure{"the path " + path + " is too long for a socket"};
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return socket_failure("no socket can be created for", path);
  if (::bind(fd.get(), as_address(*address), sizeof *address) != 0) return socket_failure("cannot bind", path);
  if (::chmod(unnamed.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(fd.get(), limits::kViewClients) != 0 ||
      ::rename(unnamed.c_str(), path.c_str()) != 0) {
    auto failure = socket_failure("cannot listen at", path);
    ::unlink(unnamed.c_str());
    return failure;
  }
  return ListeningSocket{std::move(fd), path};
}

}  // namespace

std::vector<std::string> socket_folders(std::span<const std::string> environment, const std::string& temporary) {
  const std::string chosen = find_variable(environment, "DDP_SOCKET_DIR").value_or("");
  if (!chosen.empty()) return {chosen};
  const std::string runtime = find_variable(environment, "XDG_RUNTIME_DIR").value_or("");
  std::vector<std::string> folders;
  if (runtime.starts_with('/')) folders.push_back(runtime);
  folders.push_back(temporary + "/ddplaunch-" + std::to_string(::geteuid()));
  return folders;
}

std::optional<base::Failure> check_socket_folder(const std::string& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return socket_failure("cannot use", folder);
  if (!S_ISDIR(status.st_mode)) return base::Failure{folder + " is no directory"};
  if (status.st_uid != ::geteuid()) return base::Failure{folder + " belongs to another user"};
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return base::Failure{"other users may use " + folder + ". Forbid it with chmod 700, or remove the directory."};
  }
  return std::nullopt;
}

base::Result<ListeningSocket> listen_in(const std::vector<std::string>& folders, pid_t pid) {
  base::Failure failure{"no directory for a socket is known"};
  for (const std::string& folder : folders) {
    if (&folder == &folders.back()) ::mkdir(folder.c_str(), S_IRWXU);
    if (const auto wrong = check_socket_folder(folder)) {
      failure = *wrong;
      continue;
    }
    for (const FoundSocket& socket : find_sockets({folder})) {
      if (socket.pid != pid) continue;
      const auto other = connect_to(socket.path);
      if (!other && other.error().is_stale) remove_stale(socket);
    }
    const std::string random = base::hex64(base::random64()).substr(0, kDigits);
    const std::string name = std::to_string(pid) + "-" + boot_digits() + random;
    auto socket = listen_at(folder + "/" + std::string(kSocketPrefix) + name + std::string(kSocketSuffix));
    if (socket) return socket;
    failure = socket.error();
  }
  return failure;
}

base::Result<base::UniqueFd, ConnectFailure> connect_to(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return ConnectFailure{false, "the path " + path + " is too long for a socket"};
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::connect(fd.get(), as_address(*address), sizeof *address) != 0) {
    return ConnectFailure{errno == ECONNREFUSED || errno == ENOENT,
                          "cannot connect to " + path + " (" + std::strerror(errno) + ")"};
  }
  if (!is_own_peer(fd.get())) return ConnectFailure{false, path + " belongs to a process of another user"};
  return fd;
}

base::UniqueFd accept_from(int listener) {
  return base::UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool is_own_peer(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

std::vector<FoundSocket> find_sockets(const std::vector<std::string>& folders) {
  std::vector<FoundSocket> found;
  for (const std::string& folder : folders) {
    if (check_socket_folder(folder)) continue;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), &::closedir);
    if (!directory) continue;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string_view name = middle_of(entry->d_name);
      const auto pid = base::parse_integer(name.substr(0, name.find('-')), 1, std::numeric_limits<pid_t>::max());
      if (pid) found.push_back({folder + "/" + entry->d_name, static_cast<pid_t>(*pid)});
    }
  }
  std::ranges::sort(found, {}, &FoundSocket::pid);
  return found;
}

void remove_stale(const FoundSocket& socket) {
  const std::string_view name = middle_of(std::string_view(socket.path).substr(socket.path.rfind('/') + 1));
  if (name.substr(std::min(name.find('-'), name.size())).starts_with("-" + boot_digits())) {
    ::unlink(socket.path.c_str());
  }
}

}  // namespace ddp::launcher
