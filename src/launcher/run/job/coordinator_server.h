// CoordinatorServer is the node that serves the store and coordinates the other nodes, if there are any.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/side_thread.h"
#include "launcher/run/job/agent_driver.h"
#include "launcher/run/job/coordinator.h"
#include "launcher/run/job/store_waits.h"
#include "store/server/store_server.h"

namespace ddp::launcher {

class CoordinatorServer : public AgentDriver {
 public:
  CoordinatorServer(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks);

  // Takes over a job with the agent of a node, which says what it knows.
  CoordinatorServer(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks, const Agent& agent,
                    const wire::NodeHello& own, std::unique_ptr<net::Watch> signpost);

  ~CoordinatorServer() override;

  // Returns why the store cannot listen at `address`, or std::nullopt on success. One of these must be called once,
  // before other functions.
  std::optional<std::string> listen(const std::string& address);
  std::optional<std::string> serve_at(base::UniqueFd listener);

  bool is_coordinator() const override { return true; }
  void show(wire::Subject, const std::string&) override {}
  void ask(wire::Subject what) override { act_as_coordinator(coordinator_.ask(what)); }
  void set_paused(bool is_paused) override;
  std::vector<std::string> spares() const override { return coordinator_.spares(); }
  bool is_through() const override { return is_through_; }
  std::unique_ptr<JobLink> changed() override;
  std::optional<std::string> warning() const override;

 protected:
  void send(const wire::ControlMessage& message) override;
  void set_addresses(Placement& place) const override;

 private:
  class Caller;
  store::StoreServerOptions store_options();
  void serve(std::unique_ptr<store::StoreServer> server);
  void tell_of_rejection(const std::string& peer, const std::string& reason);
  void begin();
  void find_images();
  void wait_for_images(const std::string& why);
  void find_long_waits();
  void hear(store::ConnectionId from, const std::string& peer, const std::string& bytes);
  void act_as_coordinator(std::vector<CoordinatorAction> actions);
  void carry_out(const SendToNode& action);
  void carry_out(const CloseNode& action) { server_->close_control(action.who); }
  void carry_out(const EmptyStore&) {
    server_->forget_all();
    store_waits_.clear();
    log(LogLevel::debug, "the store is empty, and an attempt begins", LogSource::store);
  }
  void carry_out(const Shown& shown) { callbacks_.report(shown); }
  void carry_out(const LogLine& line) { callbacks_.report(line); }
  void carry_out(const ClaimElectorate& action);
  void carry_out(const CoordinatorIsThrough&);
  void carry_out(const wire::CoordinatorIsElsewhere& action) {
    follows_ = action;
    callbacks_.report(LinkChanges{});
  }

  Coordinator coordinator_;
  std::unique_ptr<store::StoreServer> server_;
  std::unique_ptr<net::Watch> watch_;
  std::unique_ptr<net::Watch> timer_;
  StoreWaits store_waits_;
  std::unique_ptr<net::Watch> waits_timer_;
  std::chrono::steady_clock::time_point rings_at_;
  std::string last_peer_;
  std::string last_rejection_;  // host and reason of the last rejection
  ActionQueue<CoordinatorAction> queue_;
  bool has_begun_ = false;
  using Images = base::Result<std::vector<wire::KeptImage>>;
  using Listing = base::SideThread<std::optional<Images>>;
  std::unique_ptr<Listing> listing_;  // of --image-dir
  std::unique_ptr<net::Watch> images_watch_;
  std::unique_ptr<net::Watch> images_timer_;
  std::string images_problem_;
  std::chrono::steady_clock::time_point images_word_;
  std::string claim_text_;
  std::unique_ptr<base::SideThread<ClaimAnswer>> claim_;  // a newer one replaces one that hangs
  std::unique_ptr<net::Watch> claim_watch_;
  std::unique_ptr<Caller> caller_;  // if this node has taken over
  std::string job_;                 // see wire::NodeHello; if this node has taken over
  std::optional<wire::CoordinatorIsElsewhere> follows_;
  bool is_through_ = false;
};

}  // namespace ddp::launcher
