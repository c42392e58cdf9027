#include "launcher/run/job/signpost.h"

#include <optional>
#include <utility>

namespace ddp::launcher {

std::unique_ptr<Signpost> Signpost::open(net::EventLoop& loop, const LaunchPlan& plan, const std::string& address,
                                         std::uint16_t port, const wire::CoordinatorIsElsewhere& there) {
  std::unique_ptr<Signpost> signpost(new Signpost(there));
  store::StoreServerOptions options;
  options.limits = plan.store.limits;
  options.open = plan.store.open;
  options.authenticator = plan.store.token;
  options.open_to_machines = true;
  options.on_control = [post = signpost.get()](store::ConnectionId from, const std::string& /*peer*/,
                                               const std::string& bytes) { post->hear(from, bytes); };
  auto server = store::StoreServer::listen(address, port, std::move(options));
  if (!server) return nullptr;
  signpost->server_ = std::move(server).value();
  signpost->watch_ = loop.keep_watching(signpost->server_->fd(), [post = signpost.get()] { post->server_->serve(); });
  return signpost;
}

void Signpost::hear(store::ConnectionId from, const std::string& bytes) {
  const auto message = wire::decode_control(bytes);
  const auto* news = message ? std::get_if<wire::CoordinatorIsElsewhere>(&*message) : nullptr;
  if (news != nullptr && news->job == there_.job) there_ = *news;
  // The coordinator refuses a launcher of another job, and says why.
  if (message && std::holds_alternative<wire::NodeHello>(*message)) server_->send_control(from, wire::encode(there_));
  server_->close_control(from);
}

}  // namespace ddp::launcher
