#include "launcher/ranks/shown_ranks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>

namespace ddp::launcher {

// These objects are sent often, so their fields have no names.
void to_json(nlohmann::json& json, const TransferView& transfer) {
  json = {transfer.is_send,       transfer.peer,      transfer.number, transfer.is_done,
          transfer.is_waited_for, transfer.called_at, transfer.what,   transfer.place};
}
void from_json(const nlohmann::json& json, TransferView& transfer) {
  transfer = {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4), json.at(5), json.at(6), json.at(7)};
}
void to_json(nlohmann::json& json, const LaunchView& launches) {
  json = {launches.is_complete, launches.waits_for_all, launches.waits_for_one,
          launches.root,        launches.is_named,      launches.kernels_from};
}
void from_json(const nlohmann::json& json, LaunchView& launches) {
  launches = {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4), json.at(5)};
}
void to_json(nlohmann::json& json, const GroupView& group) {
  const int sampling = !group.is_sampled ? 0 : group.is_live ? 2 : 1;
  json = std::tie(group.name, group.rank, group.size, group.place, group.called, group.started, group.finished,
                  group.transfers_called, group.transfers_finished, group.is_left, group.gpu_queued, group.gpu_started,
                  group.gpu_finished, group.identity, group.transfers, group.blocked, sampling, group.is_by_stack,
                  group.is_final);
  if (group.launches) json.push_back(*group.launches);
}
void from_json(const nlohmann::json& json, GroupView& group) {
  group = {json.at(0), json.at(1), json.at(2), json.at(3),  json.at(4),  json.at(5), json.at(6),
           json.at(7), json.at(8), json.at(9), json.at(10), json.at(11), json.at(12)};
  group.identity = json.at(13);
  group.transfers = json.at(14).get<std::vector<TransferView>>();
  group.blocked = json.at(15);
  const int sampling = json.at(16);
  group.is_sampled = sampling != 0;
  group.is_live = sampling != 1;
  group.is_by_stack = json.at(17);
  group.is_final = json.at(18);
  if (json.size() > 19) group.launches = json.at(19).get<LaunchView>();
}

// The macro generates both directions from one list of fields.
#define DDP_FIELDS NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE
// A page of an older version lacks fields, such as the pages of recorded traces.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PageView, is_written, writer, is_training, phase, phase_name,
                                                phase_place, phase_since, steps, more_time_until, calling_threads,
                                                waiting_threads, worlds_entered, awaited_world, progress_done,
                                                progress_total, other_progress, optimizer_steps, blocked_threads,
                                                continuations, polled_at, groups)
DDP_FIELDS(CallView, sequence, fingerprint, called_at, what, name, place, root)
DDP_FIELDS(ThreadStack, tid, name, frames)
DDP_FIELDS(RankStacks, rank, source, threads, missing)
DDP_FIELDS(EvidenceSource, name, text, essence, missing)
#undef DDP_FIELDS

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
  if (!json.is_array()) return json.get<CallView>();
  CallView call;
  call.sequence = json.at(0);
  call.fingerprint = json.at(1);
  return call;
}

RankActivity activity_of(const Json& json) {
  RankActivity activity;
  activity.still_for = std::chrono::nanoseconds(json.at(0).get<std::int64_t>());
  activity.unmoved_for = std::chrono::nanoseconds(json.at(1).get<std::int64_t>());
  activity.is_complete = json.at(2);
  activity.last_sign = static_cast<Sign>(std::min(json.at(3).get<unsigned>(), static_cast<unsigned>(Sign::gpu)));
  activity.cpu_share = json.at(4);
  activity.counts_gpu_data = json.at(5);
  if (json.size() > 6) activity.exchanged_ago = std::chrono::nanoseconds(json.at(6).get<std::int64_t>());
  return activity;
}

RankView rank_of(const Json& json) {
  RankView view;
  view.rank = json.at("rank");
  view.pid = json.at("pid");
  view.has_ended = json.at("has_ended");
  view.page = json.at("page").get<PageView>();
  view.seen_at = json.at("seen_at");
  view.is_torch = json.contains("torch");
  view.is_elsewhere = json.contains("elsewhere");
  view.is_unread = json.contains("unread");
  for (const Json& group : json.at("calls")) {
    view.calls.emplace_back();
    for (const Json& call : group) view.calls.back().push_back(call_of(call));
  }
  if (!json.contains("state")) return view;
  view.process = {static_cast<char>(json.at("state").get<int>()), json.at("cpu_ticks"), json.at("waits"),
                  json.at("waits_in")};
  if (json.contains("threads")) view.process->threads = {json.at("threads").at(0), json.at("threads").at(1)};
  if (json.contains("activity")) view.activity = activity_of(json.at("activity"));
  return view;
}

// JSON writes a number that is not finite as null, too.
template <typename Number>
Json or_null(const std::optional<Number>& number) {
  return number ? Json(*number) : Json(nullptr);
}
template <typename Number>
std::optional<Number> number_or_null(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<Number>());
}

// Converts a time to this node's clock. 0 still means "never".
void shift(std::uint64_t& time, std::chrono::nanoseconds ahead) {
  if (time != 0) time -= static_cast<std::uint64_t>(ahead.count());
}

}  // namespace

std::string show_ranks(std::span<const RankView> ranks, ShownCalls calls) {
  Json all = Json::array();
  for (const RankView& rank : ranks) {
    Json json = {{"rank", rank.rank}, {"pid", rank.pid},         {"has_ended", rank.has_ended},
                 {"page", rank.page}, {"seen_at", rank.seen_at}, {"calls", Json::array()}};
    for (const auto& group : rank.calls) {
      json["calls"].push_back(calls == ShownCalls::all ? Json(group) : digest(group));
    }
    if (rank.is_torch) json["torch"] = true;
    if (rank.is_elsewhere) json["elsewhere"] = true;
    if (rank.is_unread) json["unread"] = true;
    if (rank.process) {
      json["state"] = static_cast<int>(rank.process->state);
      json["cpu_ticks"] = rank.process->cpu_ticks;
      json["waits"] = rank.process->waits;
      json["waits_in"] = rank.process->waits_in;
      if (const auto& threads = rank.process->threads) json["threads"] = {threads->free, threads->acting};
    }
    if (rank.activity) {
      json["activity"] = {rank.activity->still_for.count(), rank.activity->unmoved_for.count(),
                          rank.activity->is_complete,       rank.activity->last_sign,
                          rank.activity->cpu_share,         rank.activity->counts_gpu_data};
      if (rank.activity->exchanged_ago) json["activity"].push_back(rank.activity->exchanged_ago->count());
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
} catch (const Json::exception&) {
  return {};
}

std::string show_usage(std::span<const RankView> ranks) {
  Json all = Json::array();
  for (const RankView& rank : ranks) {
    if (!rank.usage) continue;
    const RankUsage& usage = *rank.usage;
    all.push_back({rank.rank, or_null(usage.cpus), or_null(usage.rss_bytes), or_null(usage.gpu_use),
                   or_null(usage.gpu_memory_bytes), usage.output_bytes, usage.printed_at});
  }
  return text_of(all);
}

std::map<int, RankUsage> read_usage(const std::string& text, std::chrono::nanoseconds clock_ahead) try {
  std::map<int, RankUsage> ranks;
  for (const Json& json : Json::parse(text)) {
    RankUsage& usage = ranks[json.at(0)];
    usage = {number_or_null<double>(json.at(1)),
             number_or_null<std::uint64_t>(json.at(2)),
             number_or_null<double>(json.at(3)),
             number_or_null<std::uint64_t>(json.at(4)),
             json.at(5),
             json.at(6)};
    shift(usage.printed_at, clock_ahead);
  }
  return ranks;
} catch (const Json::exception&) {
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
  return text_of({{"stacks", shown.stacks}, {"sources", shown.sources}});
}

Evidence read_evidence(const std::string& text) try {
  const Json json = Json::parse(text);
  return {json.at("stacks").get<std::vector<RankStacks>>(), json.at("sources").get<std::vector<EvidenceSource>>()};
} catch (const Json::exception&) {
  return {};
}

}  // namespace ddp::launcher
