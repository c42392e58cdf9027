// Defines one connection of the load generators: a socket, the expected reply, and the bytes received so far.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/unique_fd.h"
#include "bench/load_script.h"

namespace ddp::bench {

inline std::runtime_error system_error(const std::string& what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

class LoadClient {
 public:
  // Connects. Without `blocking`, the socket becomes writable once the connection is established.
  LoadClient(std::uint16_t port, bool blocking)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0)) {
    if (!fd_) throw system_error("socket");
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval patience{10, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS) {
      throw system_error("connect");
    }
  }

  int fd() const { return fd_.get(); }

  // Never waits: requests are short and the server has read all earlier ones, so they fit into the socket's buffer.
  void send(const Step& step) {
    expected_ = &step;
    got_.clear();
    const ssize_t sent = ::send(fd_.get(), step.request.data(), step.request.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(step.request.size())) throw system_error("send");
  }

  // Reads once; the caller knows that bytes have arrived or will arrive. Returns true when the reply is complete.
  // Throws if it differs from the expected one.
  bool receive() {
    char buffer[16384];
    const ssize_t count = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) return false;
    if (count <= 0) throw system_error(count == 0 ? "the server closed a connection" : "recv");
    got_.append(buffer, static_cast<std::size_t>(count));
    const Step& step = *expected_;
    if (step.reply.empty()) return step.reply_bytes == 0 ? got_.back() == '\n' : got_.size() >= step.reply_bytes;
    if (got_.size() < step.reply.size()) return false;
    if (got_ != step.reply) throw std::runtime_error("a wrong reply");
    return true;
  }

  const std::string& reply() const { return got_; }

  void round_trip(const Step& step) {
    send(step);
    while (!receive()) {
    }
  }

 private:
  base::UniqueFd fd_;
  const Step* expected_ = nullptr;
  std::string got_;
};

}  // namespace ddp::bench
