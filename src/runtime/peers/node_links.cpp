#include "runtime/peers/node_links.h"

#include <ddp/error.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "base/uninterrupted.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Makes an abstract address. It is not a file, and it disappears with the socket.
socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

base::UniqueFd make_socket() {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) throw Error(ErrorKind::unavailable, std::string("cannot create a Unix socket: ") + std::strerror(errno));
  return fd;
}

// Signals do not end the wait: the launcher asks for stacks with one.
bool readable(int fd, Clock::time_point deadline) {
  return base::poll_until(fd, POLLIN, deadline) > 0;
}

void require_own_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid()) return;
  throw Error(ErrorKind::unavailable, "a process of another user (uid " + std::to_string(peer.uid) +
                                          ") answered in place of a rank of this node");
}

struct Packet {
  std::uint32_t number = 0;
};

bool send_packet(int fd, std::uint32_t number, int memory) {
  Packet packet{number};
  iovec bytes{&packet, sizeof packet};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (memory >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &memory, sizeof memory);
  }
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof packet);
}

std::optional<NodeMessage> receive_packet(int fd) {
  Packet packet;
  iovec bytes{&packet, sizeof packet};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got != static_cast<ssize_t>(sizeof packet)) return std::nullopt;
  NodeMessage result{packet.number, {}};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int memory = -1;
    std::memcpy(&memory, CMSG_DATA(header), sizeof memory);
    result.memory.reset(memory);
  }
  return result;
}

std::string random_name() {
  return "ddp-" + base::hex64(base::random64()) + base::hex64(base::random64());
}

}  // namespace

NodeListener::NodeListener() : name_(random_name()), fd_(make_socket()) {
  sockaddr_un address{};
  const socklen_t length = abstract_address(name_, address);
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 || ::listen(fd_.get(), 4096) != 0) {
    throw Error(ErrorKind::unavailable, std::string("cannot listen on a Unix socket: ") + std::strerror(errno));
  }
}

NodeLinks::NodeLinks(const NodeListener& listener, const std::vector<std::string>& names, std::size_t own,
                     milliseconds timeout)
    : sockets_(names.size()) {
  const auto deadline = Clock::now() + timeout;
  for (std::size_t peer = 0; peer < own; ++peer) {
    base::UniqueFd fd = make_socket();
    sockaddr_un address{};
    const socklen_t length = abstract_address(names[peer], address);
    // It waits while the other rank's queue of connections is full.
    const auto connect = [&] { return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length); };
    if (base::uninterrupted(connect) != 0) {
      throw Error(ErrorKind::peer_lost, std::string("cannot reach another rank of this node: ") + std::strerror(errno));
    }
    require_own_user(fd.get());
    send_packet(fd.get(), static_cast<std::uint32_t>(own), -1);
    sockets_[peer] = std::move(fd);
  }
  for (std::size_t missing = names.size() - own - 1; missing > 0; --missing) {
    if (!readable(listener.fd(), deadline)) {
      throw Error(ErrorKind::timeout, base::counted(static_cast<std::int64_t>(missing), "rank") +
                                          " of this node did not connect within " + base::human_duration(timeout));
    }
    base::UniqueFd fd(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) throw Error(ErrorKind::unavailable, std::string("cannot accept a connection: ") + std::strerror(errno));
    require_own_user(fd.get());
    const auto greeting = readable(fd.get(), deadline) ? receive_packet(fd.get()) : std::nullopt;
    if (!greeting || greeting->number <= own || greeting->number >= names.size() || sockets_[greeting->number]) {
      throw Error(ErrorKind::peer_lost,
                  "another rank of this node closed its connection, or two processes have the same rank");
    }
    sockets_[greeting->number] = std::move(fd);
  }
  processes_.resize(sockets_.size());
  for (std::size_t peer = 0; peer < sockets_.size(); ++peer) {
    if (!sockets_[peer] || pid(peer) == ::getpid()) continue;
    processes_[peer].reset(static_cast<int>(::syscall(SYS_pidfd_open, pid(peer), 0)));
  }
}

int NodeLinks::pid(std::size_t peer) const {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  ::getsockopt(sockets_[peer].get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  return credentials.pid;
}

bool NodeLinks::gone(std::size_t peer) const {
  // poll() ignores a descriptor below 0.
  std::array<pollfd, 2> fds = {{{sockets_[peer].get(), POLLRDHUP, 0}, {processes_[peer].get(), POLLIN, 0}}};
  if (::poll(fds.data(), fds.size(), 0) <= 0) return false;
  return (fds[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 || (fds[1].revents & POLLIN) != 0;
}

bool NodeLinks::send(std::size_t peer, std::uint32_t number, int memory) const {
  return send_packet(sockets_[peer].get(), number, memory);
}

std::optional<NodeMessage> NodeLinks::receive(std::size_t peer, milliseconds limit) const {
  const int fd = sockets_[peer].get();
  if (!readable(fd, Clock::now() + limit)) return std::nullopt;
  return receive_packet(fd);
}

}  // namespace ddp::internal
