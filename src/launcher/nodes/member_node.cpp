#include "launcher/nodes/member_node.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/text.h"
#include "launcher/nodes/node_hello.h"
#include "net/address.h"

namespace ddp::launcher {

using Clock = std::chrono::steady_clock;

// Looks for the hub until it is found, on a thread of its own: names and machines may take their time, or hang.
struct MemberNode::Search {
  std::string host;
  std::uint16_t port = 0;
  std::shared_ptr<const store::Authenticator> token;
  Clock::time_point until;
  base::UniqueFd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> is_given_up = false;
  std::mutex mutex;
  std::optional<store::StoreVisit> found;
  std::string last_try;
  bool may_be_own = false;
  bool is_own = false;

  void run() {
    while (!is_given_up && Clock::now() < until) {
      if (may_be_own && net::is_own_host(host).value_or(false)) {
        const std::lock_guard lock(mutex);
        is_own = true;
        break;
      }
      auto visit = store::StoreVisit::open(host, port, token, until);
      const std::lock_guard lock(mutex);
      if (visit) found.emplace(std::move(visit).value());
      if (visit) break;
      last_try = visit.error().message;
      // Another try helps only where nobody has answered.
      if (visit.error().kind == store::VisitFailure::Kind::refused) break;
      std::this_thread::sleep_for(limits::kNodeConnectPause);
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(ready.get(), &one, sizeof one);
  }
};

MemberNode::MemberNode(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks, bool may_be_first)
    : Node(loop, plan, std::move(callbacks), plan.nodes.node_timeout),
      may_be_first_(may_be_first),
      until_(Clock::now() + plan.nodes.join_timeout),
      word_due_(Clock::now() + limits::kNodeFirstWord) {
  search();
}

MemberNode::~MemberNode() {
  search_->is_given_up = true;
}

void MemberNode::send(const wire::ControlMessage& message) {
  if (link_) link_->send(message);
}

void MemberNode::set_addresses(const wire::HubBegins&, NodeAssignment& place) const {
  place.master_addr = net::peer_endpoint(link_->fd()).value_or(net::Endpoint{}).address.text();
  place.master_port = plan_.store.port;
  place.interface = net::interface_of(net::own_endpoint(link_->fd()).value_or(net::Endpoint{}).address);
}

// Whole lines where there are some.
std::optional<std::size_t> MemberNode::print(wire::Subject what, std::string_view bytes) {
  if (!link_ || !agent_.runs()) return std::nullopt;
  if (link_->unsent() > 0) link_->flush();
  if (link_->unsent() >= limits::kPrintedUnsent) return 0;
  bytes = bytes.substr(0, limits::kPrintedAtOnce);
  if (const std::size_t end = bytes.rfind('\n'); end != std::string_view::npos) bytes = bytes.substr(0, end + 1);
  act(agent_.show(what, wire::bytes_to_text(bytes)));
  return bytes.size();
}

void MemberNode::search() {
  search_ = std::make_shared<Search>();
  search_->host = plan_.store.advertised;
  search_->port = plan_.store.port;
  search_->token = plan_.store.token;
  search_->until = until_;
  search_->may_be_own = may_be_first_;
  found_ = loop_.watch_readable(search_->ready.get(), [this] { begin(); });
  try {
    std::thread([search = search_] { search->run(); }).detach();
  } catch (const std::system_error& error) {
    search_->last_try = std::string("no thread can be started to look for it: ") + error.what();
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(search_->ready.get(), &one, sizeof one);
  }
  timer_ = loop_.at(word_due_, [this] { tell_of_search(); });
}

void MemberNode::tell_of_search() {
  const std::lock_guard lock(search_->mutex);
  const std::string& why = search_->last_try.empty() ? last_loss_ : search_->last_try;
  callbacks_.tell("looking for the first node at " + endpoint() + (why.empty() ? "" : " (" + why + ")"));
  word_due_ = Clock::now() + limits::kNodeNextWord;
  timer_ = loop_.at(word_due_, [this] { tell_of_search(); });
}

void MemberNode::begin() {
  timer_.reset();
  std::string last_try;
  {
    const std::lock_guard lock(search_->mutex);
    last_try = search_->last_try;
    if (search_->is_own) return callbacks_.is_first();
    if (search_->found) {
      link_ = std::make_unique<ControlLink>(
          loop_, std::move(*search_->found),
          ControlLink::Callbacks{[this](const wire::ControlMessage& message) {
                                   has_heard_ = true;
                                   act(agent_.heard(message, Clock::now()));
                                 },
                                 [this](const std::string& why) { lose(std::string(why)); },
                                 [this] { callbacks_.can_print(); }});
    }
  }
  if (!link_) {
    const bool is_refused = Clock::now() < until_;
    return act(agent_.hub_lost(
        (is_refused ? "" : "not found within " + base::human_duration(plan_.nodes.join_timeout) + ": ") + last_try));
  }
  const wire::NodeHello hello = make_node_hello(plan_);  // may take its time, for a large program
  act(agent_.connected(hello, Clock::now()));
  tick();
}

void MemberNode::tick() {
  if (agent_.may_look_again() && agent_.is_silent(Clock::now())) {
    return lose("no word from it for " + base::human_duration(plan_.nodes.node_timeout));
  }
  act(agent_.tick(Clock::now()));
  if (!agent_.has_left()) timer_ = loop_.at(agent_.alarm(), [this] { tick(); });
}

// Before a word was said it closes connections that were made just when the store was emptied for an attempt or when
// its job is over, and another job of ours closes all of them.
void MemberNode::lose(const std::string& why) {
  link_.reset();
  last_loss_ = why + (has_heard_ ? ""
                                 : " without a word: its job may be another one, or want a token "
                                   "(--auth-token-file)");
  if (!agent_.may_look_again() || Clock::now() + limits::kNodeBeat > until_) return act(agent_.hub_lost(last_loss_));
  if (std::exchange(has_heard_, false)) {
    callbacks_.tell("the first node (" + endpoint() + ") is lost: " + why + "; looking for it again");
  }
  timer_ = loop_.at(Clock::now() + limits::kNodeConnectPause, [this] { search(); });
}

}  // namespace ddp::launcher
