#include "launcher/run/ranks/shown_ranks.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "wire/json_fields.h"

namespace ddp::launcher {

// These objects are sent often, so their fields have no names.
auto fields_of(wire::FieldsOf<TransferView> auto& transfer) {
  return std::tie(transfer.is_send, transfer.peer, transfer.number, transfer.is_done, transfer.is_waited_for,
                  transfer.called_at, transfer.what, transfer.place);
}
auto fields_of(wire::FieldsOf<LaunchView> auto& launches) {
  return std::tie(launches.is_complete, launches.waits_for_all, launches.waits_for_one, launches.root,
                  launches.is_named, launches.kernels_from);
}
auto fields_of(wire::FieldsOf<GroupView> auto& group) {
  return std::tie(group.name, group.rank, group.size, group.place, group.called, group.started, group.finished,
                  group.transfers_called, group.transfers_finished, group.is_left, group.gpu_queued, group.gpu_started,
                  group.gpu_finished, group.identity, group.transfers, group.blocked, group.is_sampled, group.is_live,
                  group.is_by_stack, group.is_final, group.launches);
}
auto fields_of(wire::FieldsOf<FreeThreads> auto& threads) {
  return std::tie(threads.free, threads.acting);
}
auto fields_of(wire::FieldsOf<ProcessSample> auto& process) {
  return std::tie(process.state, process.cpu_ticks, process.waits, process.waits_in, process.threads);
}
constexpr Sign last_of(Sign) {
  return Sign::gpu;
}
auto fields_of(wire::FieldsOf<RankActivity> auto& activity) {
  return std::tie(activity.still_for, activity.unmoved_for, activity.is_complete, activity.last_sign,
                  activity.cpu_share, activity.counts_gpu_data, activity.exchanged_ago);
}
auto fields_of(wire::FieldsOf<RankUsage> auto& usage) {
  return std::tie(usage.cpus, usage.rss_bytes, usage.gpu_use, usage.gpu_memory_bytes, usage.output_bytes,
                  usage.printed_at);
}
BOOST_DESCRIBE_STRUCT(PageView, (),
                      (is_written, writer, phase, phase_name, phase_place, phase_since, steps, more_time_until,
                       calling_threads, waiting_threads, worlds_entered, awaited_world, progress_done, progress_total,
                       other_progress, optimizer_steps, blocked_threads, continuations, polled_at, groups))
BOOST_DESCRIBE_STRUCT(CallView, (), (sequence, fingerprint, called_at, what, name, place, root))
// The calls are added as far as they are wanted.
BOOST_DESCRIBE_STRUCT(RankView, (),
                      (rank, pid, has_ended, is_torch, is_elsewhere, is_unread, page, seen_at, process, activity))
BOOST_DESCRIBE_STRUCT(ThreadStack, (), (tid, name, frames))
BOOST_DESCRIBE_STRUCT(RankStacks, (), (rank, source, threads, missing))
BOOST_DESCRIBE_STRUCT(EvidenceSource, (), (name, text, essence, missing))
BOOST_DESCRIBE_STRUCT(Evidence, (), (stacks, sources))

namespace {

using Json = nlohmann::json;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Ranks of a group are a few calls apart.
constexpr std::size_t kDigestCalls = 4;

Json digest(const std::vector<CallView>& calls) {
  Json json = Json::array();
  for (std::size_t i = calls.size() - std::min(calls.size(), kDigestCalls); i < calls.size(); ++i) {
    json.push_back({calls[i].sequence, calls[i].fingerprint});
  }
  return json;
}

CallView call_of(const Json& json) {
  if (!json.is_array()) return wire::read_json<CallView>(json);
  CallView call;
  wire::read_json(json.at(0), call.sequence);
  wire::read_json(json.at(1), call.fingerprint);
  return call;
}

RankView rank_of(const Json& json) {
  auto view = wire::read_json<RankView>(json);
  for (const Json& group : json.at("calls")) {
    view.calls.emplace_back();
    for (const Json& call : group) view.calls.back().push_back(call_of(call));
  }
  return view;
}

// Converts a time to this node's clock. 0 still means "never".
void shift(std::uint64_t& time, std::chrono::nanoseconds ahead) {
  if (time != 0) time -= static_cast<std::uint64_t>(ahead.count());
}

}  // namespace

std::string show_ranks(std::span<const RankView> ranks, ShownCalls calls) {
  Json all = Json::array();
  for (const RankView& rank : ranks) {
    Json json = wire::json_of(rank);
    json["calls"] = Json::array();
    for (const auto& group : rank.calls) {
      json["calls"].push_back(calls == ShownCalls::all ? wire::json_of(group) : digest(group));
    }
    all.push_back(std::move(json));
  }
  return text_of(all);
}

std::vector<RankView> read_ranks(const std::string& text, const std::string& node,
                                 std::chrono::nanoseconds clock_ahead) try {
  std::vector<RankView> ranks;
  for (const Json& json : Json::parse(text)) {
    RankView view = rank_of(json);
    view.node = node;
    shift(view.page.phase_since, clock_ahead);
    shift(view.page.more_time_until, clock_ahead);
    shift(view.page.polled_at, clock_ahead);
    shift(view.seen_at, clock_ahead);
    for (auto& group : view.calls) {
      for (CallView& call : group) shift(call.called_at, clock_ahead);
    }
    ranks.push_back(std::move(view));
  }
  return ranks;
} catch (const std::exception&) {  // of the library, or about a number
  return {};
}

std::string show_usage(std::span<const RankView> ranks) {
  Json all = Json::array();
  for (const RankView& rank : ranks) {
    if (!rank.usage) continue;
    all.push_back({rank.rank, wire::json_of(*rank.usage)});
  }
  return text_of(all);
}

std::map<int, RankUsage> read_usage(const std::string& text, std::chrono::nanoseconds clock_ahead) try {
  std::map<int, RankUsage> ranks;
  for (const Json& json : Json::parse(text)) {
    RankUsage& usage = ranks[wire::read_json<int>(json.at(0))];
    wire::read_json(json.at(1), usage);
    shift(usage.printed_at, clock_ahead);
  }
  return ranks;
} catch (const std::exception&) {  // of the library, or about a number
  return {};
}

std::string show_evidence(const Evidence& evidence, std::size_t most) {
  Evidence shown = evidence;
  std::size_t bytes = 0;
  for (RankStacks& rank : shown.stacks) {
    std::size_t own = 0;
    for (const ThreadStack& thread : rank.threads) {
      for (const std::string& frame : thread.frames) own += frame.size();
    }
    if ((bytes += own) <= most) continue;
    rank.threads.clear();
    rank.missing.emplace_back("too large to send; the dump on its node has it");
  }
  for (EvidenceSource& source : shown.sources) {
    if ((bytes += source.text.size()) <= most) continue;
    source.text = "(too large to send; the dump on its node has it)";
  }
  return text_of(wire::json_of(shown));
}

Evidence read_evidence(const std::string& text) try {
  return wire::read_json<Evidence>(Json::parse(text));
} catch (const std::exception&) {  // of the library, or about a number
  return {};
}

}  // namespace ddp::launcher
