#include "launcher/job/node_agent.h"

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {

using wire::Cause;

std::vector<NodeAction> NodeAgent::connected(const wire::NodeHello& hello, TimePoint now) {
  heard_at_ = next_beat_ = now;
  add(SendToHub{hello});
  return take();
}

std::vector<NodeAction> NodeAgent::heard(const wire::ControlMessage& message, TimePoint now) {
  heard_at_ = now;
  if (has_left_ || last_) return {};
  if (const auto* begins = std::get_if<wire::HubBegins>(&message); begins != nullptr && !runs_) {
    attempt_ = begins->attempt;
    runs_ = takes_part_ = true;
    add(StartWorkers{*begins});
  } else if (const auto* ends = std::get_if<wire::HubEnds>(&message)) {
    if (runs_ && ends->attempt == attempt_) add(EndWorkers{ends->cause});
  } else if (const auto* asks = std::get_if<wire::HubAsks>(&message)) {
    if (runs_ && asks->attempt == attempt_) add(ShowHub{asks->what});
  } else if (const auto* done = std::get_if<wire::HubIsDone>(&message)) {
    leave(done->cause);
  } else if (const auto* refuses = std::get_if<wire::HubRefuses>(&message)) {
    leave(
        {.text = "the job at " + hub_ + " does not take this node: " + refuses->why, .exit_code = base::kExitOwnFault});
  } else if (const auto* waits = std::get_if<wire::HubWaits>(&message)) {
    is_spare_ = waits->is_spare;
    add(TellHere{{LogLevel::note, LogSource::nodes, waits->text}});
  } else if (const auto* restarts = std::get_if<wire::HubRestarts>(&message)) {
    add(AttemptFollows{restarts->text});
  }
  return take();
}

std::vector<NodeAction> NodeAgent::hub_lost(const std::string& why) {
  if (has_left_ || last_) return {};
  leave({.text = "the first node (" + hub_ + ") is lost: " + why, .exit_code = base::kExitOwnFault});
  return take();
}

std::vector<NodeAction> NodeAgent::hub_refuses(const std::string& why) {
  if (has_left_ || last_) return {};
  leave({.text = "the first node (" + hub_ + ") does not take this node: " + why, .exit_code = base::kExitOwnFault});
  return take();
}

// With workers that run, when those have ended.
void NodeAgent::leave(const Cause& cause) {
  if (runs_) {
    last_ = cause;
    add(EndWorkers{cause});
  } else {
    has_left_ = true;
    add(LeaveJob{cause});
  }
}

std::vector<NodeAction> NodeAgent::failed(const Cause& cause) {
  if (has_left_ || last_) return {};
  const bool is_hubs_own = node_timeout_.count() == 0;
  if (takes_part_ || is_hubs_own) {
    add(SendToHub{wire::NodeFailed{attempt_, cause}});
  } else {
    leave(cause);
  }
  return take();
}

std::vector<NodeAction> NodeAgent::rank_left(int rank) {
  if (runs_ && !last_) add(SendToHub{wire::NodeLeft{attempt_, rank}});
  return take();
}

std::vector<NodeAction> NodeAgent::show(wire::Subject what, std::string text) {
  if (runs_ && !last_) add(SendToHub{wire::NodeShows{attempt_, what, std::move(text)}});
  return take();
}

std::vector<NodeAction> NodeAgent::workers_ended(wire::Progress progress) {
  if (!std::exchange(runs_, false)) return {};
  if (last_) {
    leave(*last_);
  } else {
    add(SendToHub{wire::NodeEnded{attempt_, progress}});
  }
  return take();
}

std::vector<NodeAction> NodeAgent::tick(TimePoint now) {
  if (now < next_beat_) return {};
  next_beat_ = now + limits::kNodeBeat;
  if (has_left_) return {};
  if (!is_silent(now)) {
    if (node_timeout_.count() > 0) add(SendToHub{wire::Beat{}});
    return take();
  }
  // Where packets are lost in one direction only the hub hears this, and does not take the ranks that lose ours for the
  // cause.
  if (runs_ && !last_) {
    const std::string text =
        "lost: it hears nothing of the first node (" + hub_ + ") for " + base::human_duration(node_timeout_);
    add(SendToHub{wire::NodeFailed{attempt_, {.text = text, .exit_code = base::kExitOwnFault, .may_restart = true}}});
  }
  return hub_lost("no word from it for " + base::human_duration(node_timeout_));
}

}  // namespace ddp::launcher
