#include "launcher/run/ranks/rank_exchange.h"

#include <algorithm>

#include "launcher/limits.h"
#include "launcher/run/ranks/shown_ranks.h"

namespace ddp::launcher {

namespace {

// A digest contains neither the state of the process nor the text of calls that were shown in full before. This
// function keeps both from the earlier view.
void keep_what_is_known(RankView& known, RankView& view) {
  if (known.pid != view.pid) return;
  view.usage = known.usage;
  if (!view.process && !view.has_ended) {
    view.process = std::move(known.process);
    view.activity = known.activity;
  }
  const auto& groups = view.page.groups;
  const std::size_t both = std::min({view.calls.size(), known.calls.size(), groups.size(), known.page.groups.size()});
  for (std::size_t i = 0; i < both; ++i) {
    if (key_of(groups[i]) != key_of(known.page.groups[i])) continue;
    for (CallView& call : view.calls[i]) {
      const auto same = std::find_if(known.calls[i].begin(), known.calls[i].end(), [&](const CallView& other) {
        return other.sequence == call.sequence && other.fingerprint == call.fingerprint;
      });
      if (call.what.empty() && same != known.calls[i].end()) call = std::move(*same);
    }
  }
}

}  // namespace

void RankExchange::begin(RankChannel& channel, const Placement& place) {
  channel_ = &channel;
  place_ = place;
  shown_.clear();
  next_show_ = TimePoint();
  far_.clear();
  has_news_ = false;
  has_usage_news_ = false;
  evidence_ = {};
  with_evidence_.clear();
}

void RankExchange::show(std::span<const RankView> ranks, TimePoint now) {
  std::vector<std::uint64_t> versions;
  for (const RankView& rank : ranks) versions.push_back(rank.has_ended ? ~rank.version : rank.version);
  if (versions == shown_) return;
  shown_ = std::move(versions);
  next_show_ = now + limits::kNodeShow + place_.node_count * limits::kNodeShowShare;
  channel_->show(wire::Subject::ranks, show_ranks(ranks, ShownCalls::digest));
}

void RankExchange::show_in_full(std::span<const RankView> ranks) {
  channel_->show(wire::Subject::ranks, show_ranks(ranks, ShownCalls::all));
}

void RankExchange::show_usage(std::span<const RankView> ranks) {
  channel_->show(wire::Subject::usage, launcher::show_usage(ranks));
}

void RankExchange::show(const Evidence& evidence, wire::Subject what) {
  const std::size_t share = limits::kAllShownEvidence / static_cast<std::size_t>(std::max(place_.node_count, 1));
  channel_->show(what, show_evidence(evidence, std::min(limits::kShownEvidence, share)));
}

void RankExchange::ask_for_evidence(wire::Subject what) {
  evidence_ = {};
  with_evidence_.clear();
  asked_ = what;
  channel_->ask(what);
}

bool RankExchange::has_evidence() const {
  return std::ranges::all_of(
      far_, [&](const auto& entry) { return entry.second.has_ended || with_evidence_.contains(entry.first); });
}

Evidence RankExchange::take_evidence() {
  for (const auto& [rank, view] : far_) {
    if (view.has_ended || with_evidence_.contains(rank)) continue;
    evidence_.stacks.push_back({rank, {}, {}, {"node " + view.node + " has not answered"}});
  }
  return std::exchange(evidence_, {});
}

void RankExchange::asked(wire::Subject what, std::uint64_t asked_at) {
  if (what == wire::Subject::records) {
    if (on_records_asked) on_records_asked(asked_at);
  } else if (on_asked) {
    on_asked(what);
  }
}

void RankExchange::shown(const Shown& shown) {
  if (shown.what == wire::Subject::records) {
    if (on_records) on_records(shown);
    return;
  }
  if (shown.what == wire::Subject::proof) {
    if (on_proof) on_proof(shown);
    return;
  }
  if (shown.what == wire::Subject::ranks) {
    for (RankView& view : read_ranks(shown.text, shown.host, shown.clock_ahead)) {
      if (view.rank < 0 || view.rank >= place_.world_size) continue;
      RankView& known = far_[view.rank];
      keep_what_is_known(known, view);
      known = std::move(view);
    }
    has_news_ = true;
  } else if (shown.what == wire::Subject::usage) {
    for (const auto& [rank, usage] : read_usage(shown.text, shown.clock_ahead)) {
      const auto known = far_.find(rank);
      if (known == far_.end() || known->second.node != shown.host) continue;
      known->second.usage = usage;
      has_usage_news_ = true;
    }
  } else if (shown.what == asked_) {
    const Evidence more = read_evidence(shown.text);
    for (const RankStacks& rank : more.stacks) {
      with_evidence_.insert(rank.rank);
      evidence_.stacks.push_back(rank);
    }
    for (EvidenceSource source : more.sources) {
      source.name += " of node " + shown.host;
      evidence_.sources.push_back(std::move(source));
    }
    if (on_evidence) on_evidence();
  }
}

}  // namespace ddp::launcher
