#include "launcher/start/doctor/between/probe_server.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "net/address.h"

namespace ddp::launcher::doctor {
namespace {

using Clock = std::chrono::steady_clock;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Returns null if this is no numeric address.
Addresses datagram_address(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

// Returns a socket for datagrams that is bound to this address, and its port. Returns none if there is none.
std::pair<base::UniqueFd, std::uint16_t> open_datagrams(const std::string& address) {
  const Addresses own = datagram_address(address, 0);
  if (own == nullptr) return {};
  base::UniqueFd fd(::socket(own->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), own->ai_addr, own->ai_addrlen) != 0) return {};
  const auto endpoint = net::own_endpoint(fd.get());
  return {std::move(fd), endpoint ? endpoint->port : std::uint16_t{0}};
}

class Visit {
 public:
  Visit(base::UniqueFd fd, std::uint64_t key, int node)
      : fd_(std::move(fd)), key_(key), node_(node), until_(Clock::now() + kProbeVisit), buffer_(1 << 18) {}

  // Serves one request after another until the other side closes the connection, or an error.
  void serve() {
    ProbeRequest request;
    while (net::receive_all(fd_.get(), bytes_of(request), until_) && request.key == key_ && serve(request)) {
    }
  }

 private:
  bool serve(const ProbeRequest& request) {
    using What = ProbeRequest::What;
    switch (request.what) {
      case What::echo:
        return answer(0);
      case What::take:
        return take(request.amount) && answer(request.amount);
      case What::give:
        return give(request.amount);
      case What::take_all:
        return take_all();
      case What::give_for:
        give_for(std::chrono::milliseconds(std::min<std::uint64_t>(request.amount, 10'000)));
        return false;
    }
    return false;
  }

  bool answer(std::uint64_t bytes) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    ProbeAnswer said{static_cast<std::uint64_t>(node_), std::chrono::nanoseconds(now).count(), bytes};
    return static_cast<bool>(net::send_all(fd_.get(), bytes_of(said), until_));
  }
  bool take(std::uint64_t left) {
    while (left > 0) {
      const auto part = std::span(buffer_).first(std::min<std::uint64_t>(left, buffer_.size()));
      const auto got = net::receive_some(fd_.get(), part, until_);
      if (!got) return false;
      left -= got.value();
    }
    return true;
  }
  bool give(std::uint64_t left) {
    for (; left > 0; left -= std::min<std::uint64_t>(left, buffer_.size())) {
      const auto part = std::span(buffer_).first(std::min<std::uint64_t>(left, buffer_.size()));
      if (!net::send_all(fd_.get(), part, until_)) return false;
    }
    return true;
  }
  bool take_all() {
    std::uint64_t bytes = 0;
    auto got = net::receive_some(fd_.get(), buffer_, until_);
    for (; got; got = net::receive_some(fd_.get(), buffer_, until_)) bytes += got.value();
    return got.error().kind == net::SocketFailure::Kind::closed && answer(bytes);
  }
  void give_for(std::chrono::milliseconds time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end && net::send_all(fd_.get(), buffer_, std::min(until_, end + time))) {
    }
  }

  base::UniqueFd fd_;
  const std::uint64_t key_;
  const int node_;
  const net::Deadline until_;
  std::vector<char> buffer_;
};

}  // namespace

base::Result<std::unique_ptr<ProbeServer>> ProbeServer::open(const NodeAddress& own, std::uint64_t key) {
  std::unique_ptr<ProbeServer> server(new ProbeServer(own, key));
  NodeAddress& address = server->address_;
  address.ports.clear();
  for (int i = 0; i < kProbePorts; ++i) {
    auto listener = net::listen_tcp(own.address, 0, 1024);
    if (!listener) return listener.error();
    address.ports.push_back(net::own_endpoint(listener.value().get()).value_or(net::Endpoint{}).port);
    server->listeners_.push_back(std::move(listener).value());
  }
  if (own.endpoint_port != 0) {
    auto listener = net::listen_tcp(own.address, own.endpoint_port, 1024);
    if (listener) server->listeners_.push_back(std::move(listener).value());
    if (!listener) address.endpoint_port = 0;
  }
  std::tie(server->datagrams_, address.datagram_port) = open_datagrams(own.address);
  const int room = 4 << 20;  // for the datagrams of many nodes
  ::setsockopt(server->datagrams_.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  server->end_ = base::UniqueFd(::eventfd(0, EFD_CLOEXEC));
  server->thread_ = std::thread([raw = server.get()] { raw->serve(); });
  return server;
}

ProbeServer::~ProbeServer() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(end_.get(), &one, sizeof one));
  if (thread_.joinable()) thread_.join();
}

std::map<int, int> ProbeServer::datagrams() const {
  const std::lock_guard lock(mutex_);
  return arrived_;
}

void ProbeServer::send_datagrams(const std::vector<NodeAddress>& to, int rounds,
                                 std::chrono::milliseconds pause) const {
  const ProbeDatagram datagram{key_, static_cast<std::uint64_t>(address_.node)};
  std::vector<Addresses> addresses;
  for (const NodeAddress& node : to) {
    if (node.datagram_port != 0) addresses.push_back(datagram_address(node.address, node.datagram_port));
  }
  std::erase(addresses, nullptr);
  for (int i = 0; i < rounds; ++i) {
    for (const Addresses& each : addresses) {
      ::sendto(datagrams_.get(), &datagram, sizeof datagram, MSG_DONTWAIT, each->ai_addr, each->ai_addrlen);
    }
    std::this_thread::sleep_for(pause);
  }
}

void ProbeServer::receive_datagrams() {
  ProbeDatagram datagram;
  const std::lock_guard lock(mutex_);
  while (::recv(datagrams_.get(), &datagram, sizeof datagram, MSG_DONTWAIT) == sizeof datagram) {
    if (datagram.key == key_) ++arrived_[static_cast<int>(datagram.node)];
  }
}

void ProbeServer::serve() {
  std::vector<pollfd> watched = {{end_.get(), POLLIN, 0}, {datagrams_.get(), POLLIN, 0}};
  for (const base::UniqueFd& listener : listeners_) watched.push_back({listener.get(), POLLIN, 0});
  while (true) {
    ::poll(watched.data(), watched.size(), -1);
    if ((watched[0].revents & POLLIN) != 0) return;
    if (watched[1].revents != 0) receive_datagrams();
    for (std::size_t i = 2; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      auto fd = net::accept_tcp(watched[i].fd, kProbeVisit);
      if (!fd) continue;
      try {
        std::thread([visit = std::make_shared<Visit>(std::move(fd), key_, address_.node)] { visit->serve(); }).detach();
      } catch (const std::exception&) {
        // The other node sees that the connection is closed, and tries again.
      }
    }
  }
}

}  // namespace ddp::launcher::doctor
