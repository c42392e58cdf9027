#include "launcher/rendezvous/rendezvous.h"

#include "store/store_server.h"

namespace ddp::launcher {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

class SingleNodeRendezvous : public Rendezvous {
 public:
  SingleNodeRendezvous(std::unique_ptr<store::StoreServer> server, int workers) : server_(std::move(server)) {
    assignment_.world_size = workers;
    assignment_.master_addr = kLoopback;
    assignment_.master_port = server_->port();
  }

  const NodeAssignment& assignment() const override { return assignment_; }

 private:
  std::unique_ptr<store::StoreServer> server_;
  NodeAssignment assignment_;
};

}  // namespace

base::Result<std::unique_ptr<Rendezvous>> Rendezvous::open(net::EventLoop& loop, const LaunchPlan& plan,
                                                           RejectionCallback on_rejection) {
  auto server = store::StoreServer::listen(loop, kLoopback, 0, std::move(on_rejection));
  if (!server) return server.error();
  return std::unique_ptr<Rendezvous>(std::make_unique<SingleNodeRendezvous>(std::move(server).value(), plan.workers));
}

}  // namespace ddp::launcher
