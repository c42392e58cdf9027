// CoordinatorClient is a node that searches for the coordinator and connects to it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/side_thread.h"
#include "launcher/run/job/agent_driver.h"
#include "launcher/run/job/control_link.h"
#include "net/address.h"
#include "net/event_loop.h"
#include "store/client/store_visit.h"
#include "wire/control_message.h"

namespace ddp::launcher {

class CoordinatorClient : public AgentDriver {
 public:
  // `meets_at` is where the coordinator is looked for. If `may_be_first`, this is the endpoint of the plan, whose name
  // is not resolved yet and may be this node's own.
  CoordinatorClient(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks,
                    wire::CoordinatorIsElsewhere meets_at, bool may_be_first,
                    std::unique_ptr<net::Watch> signpost = nullptr);
  ~CoordinatorClient() override;

  bool is_coordinator() const override { return false; }
  void show(wire::Subject what, const std::string& text) override { act(agent_.show(what, text)); }
  void ask(wire::Subject) override {}
  std::optional<std::size_t> print(wire::Subject what, std::string_view bytes) override;
  int print_descriptor() const override { return link_ ? link_->fd() : -1; }
  std::unique_ptr<JobLink> changed() override;

 protected:
  void send(const wire::ControlMessage& message) override;
  void set_addresses(Placement& place) const override;

 private:
  struct Found;
  struct Search;
  void log_message(const std::string& way, const wire::ControlMessage& message) const;
  void search();
  void tell_of_search();
  void begin();
  void connect(store::StoreVisit visit);
  void listen();
  void tick();
  void lose(const std::string& why, LinkEnd end);
  void find_successor(bool needs_proof);
  void wait_for_silence();
  void begin_again();

  void hear(const wire::ControlMessage& message);
  std::string where() const { return net::host_and_port(meets_at_.address, meets_at_.port); }

  bool may_be_first_;
  wire::CoordinatorIsElsewhere meets_at_;
  std::chrono::steady_clock::time_point until_;  // deadline for the coordinator's first message
  std::shared_ptr<Search> search_;               // shared with the searching thread
  std::unique_ptr<base::SideThread<Found>> search_thread_;
  std::unique_ptr<ControlLink> link_;
  std::vector<store::StoreVisit> given_up_;  // connections to silent coordinators
  bool has_heard_ = false;
  std::chrono::steady_clock::time_point word_due_;  // when the search is reported next
  std::string last_loss_;
  net::Endpoint coordinator_;  // to which this node is or was connected
  base::UniqueFd listener_;    // for the case that this node leads the job
  std::optional<wire::NodeHello> hello_;
  std::unique_ptr<net::Watch> found_;
  std::unique_ptr<net::Watch> timer_;
};

}  // namespace ddp::launcher
