#include "launcher/rendezvous/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>

#include "store/store_server.h"

namespace ddp::launcher {
namespace {

class SingleNodeRendezvous : public Rendezvous {
 public:
  SingleNodeRendezvous(net::EventLoop& loop, std::unique_ptr<store::StoreServer> server, const LaunchPlan& plan)
      : server_(std::move(server)), watch_(loop.keep_watching(server_->fd(), [this] { server_->serve(); })) {
    assignment_.world_size = plan.workers;
    assignment_.master_addr = plan.store.advertised;
    assignment_.master_port = server_->port();
  }

  const NodeAssignment& assignment() const override { return assignment_; }

 private:
  std::unique_ptr<store::StoreServer> server_;
  std::unique_ptr<net::Watch> watch_;
  NodeAssignment assignment_;
};

bool is_number(const std::string& address) {
  std::array<char, sizeof(in6_addr)> ignored{};
  return ::inet_pton(AF_INET, address.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), ignored.data()) == 1;
}

// The addresses of a name that the user gave; a number is its own.
base::Result<std::vector<std::string>> look_up(const std::string& address) {
  // All interfaces are those of IPv4 on a machine without IPv6.
  if (address == "::") return std::vector<std::string>{"::", "0.0.0.0"};
  if (is_number(address)) return std::vector{address};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(address.c_str(), nullptr, &hints, &first);
  if (error != 0) {
    return base::Failure{"cannot serve the store on " + address + ": the name cannot be resolved (" +
                         ::gai_strerror(error) + "). Give an address of this machine with --local-addr."};
  }
  std::vector<std::string> addresses;
  for (const addrinfo* info = first; info != nullptr; info = info->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    const int failed =
        ::getnameinfo(info->ai_addr, info->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
    if (failed == 0) addresses.emplace_back(text.data());
  }
  ::freeaddrinfo(first);
  return addresses;
}

}  // namespace

base::Result<std::unique_ptr<Rendezvous>> Rendezvous::open(net::EventLoop& loop, const LaunchPlan& plan,
                                                           const RejectionCallback& on_rejection) {
  const auto addresses = look_up(plan.store.bind_address);
  if (!addresses) return addresses.error();
  store::StoreServerOptions options;
  options.on_rejection = on_rejection;
  std::string why;
  for (const std::string& address : addresses.value()) {
    auto server = store::StoreServer::listen(address, plan.store.port, options);
    if (server) {
      return std::unique_ptr<Rendezvous>(std::make_unique<SingleNodeRendezvous>(loop, std::move(server).value(), plan));
    }
    if (why.empty()) why = server.error().message;
  }
  const std::string remedy = plan.store.port != 0
                                 ? "Is the port taken by another job? Port 0 is a free one; the address "
                                   "must belong to this machine (--local-addr)."
                                 : "The address must belong to this machine (--local-addr).";
  return base::Failure{why + ". " + remedy};
}

}  // namespace ddp::launcher
