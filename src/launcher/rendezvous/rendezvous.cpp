#include "launcher/rendezvous/rendezvous.h"

#include "launcher/rendezvous/store_listener.h"

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
  std::optional<std::string> warning() const override { return server_->warning(); }

 private:
  std::unique_ptr<store::StoreServer> server_;
  std::unique_ptr<net::Watch> watch_;
  NodeAssignment assignment_;
};

}  // namespace

base::Result<std::unique_ptr<Rendezvous>> Rendezvous::open(net::EventLoop& loop, const LaunchPlan& plan,
                                                           const WarningCallback& on_warning,
                                                           const SocketCallback& worker_sockets) {
  store::StoreServerOptions options;
  options.limits = plan.store.limits;
  options.open = plan.store.open;
  options.authenticator = plan.store.token;
  options.on_rejection = [on_warning](const std::string& peer, const std::string& reason) {
    on_warning("the store sent " + peer + " away: " + reason);
  };
  options.ranked_sockets = worker_sockets;
  options.on_given_up = [on_warning](const std::string& text) { on_warning("store: " + text); };
  auto server = listen_at(plan.store.bind_address, plan.store.port, options, "--local-addr");
  if (server) {
    return std::unique_ptr<Rendezvous>(std::make_unique<SingleNodeRendezvous>(loop, std::move(server).value(), plan));
  }
  const std::string& why = server.error().message;
  return base::Failure{why + "." + listen_remedy(why, "--local-addr", "--master-port=")};
}

}  // namespace ddp::launcher
