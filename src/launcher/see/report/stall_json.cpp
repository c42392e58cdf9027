#include "launcher/see/report/stall_json.h"

#include <algorithm>
#include <string>
#include <vector>

namespace ddp::launcher {

double seconds_json(std::chrono::nanoseconds duration) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count()) / 1e6;
}

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson describe_call(const CallView& call) {
  return {{"number", call.sequence}, {"call", call.what}, {"name", call.name}, {"place", call.place}};
}

// Returns what is known about one rank.
OrderedJson describe_rank(const RankView& view) {
  OrderedJson json = {{"rank", view.rank}, {"pid", view.pid}, {"ended", view.has_ended}};
  if (!view.node.empty()) json["node"] = view.node;
  if (view.activity) {
    json["cpu_share"] = view.activity->cpu_share;
    json["still_seconds"] = seconds_json(view.activity->still_for);
    json["sign_of_life"] = name_of(view.activity->last_sign);
  }
  if (view.process) json["state"] = std::string(1, view.process->state);
  if (view.process && !view.process->waits_in.empty()) json["waits_in"] = view.process->waits_in;
  if (!view.page.is_written) return json;
  json["phase"] = name_of(view.page.phase);
  if (!view.page.phase_name.empty()) json["phase_name"] = view.page.phase_name;
  if (!view.page.phase_place.empty()) json["phase_place"] = view.page.phase_place;
  json["steps"] = view.page.steps;
  json["groups"] = OrderedJson::array();
  for (std::size_t i = 0; i < view.page.groups.size(); ++i) {
    const GroupView& group = view.page.groups[i];
    OrderedJson calls = OrderedJson::array();
    for (const CallView& call : i < view.calls.size() ? view.calls[i] : std::vector<CallView>()) {
      calls.push_back(describe_call(call));
    }
    json["groups"].push_back({{"name", group.name},
                              {"size", group.size},
                              {"called", group.called},
                              {"started", group.started},
                              {"finished", group.finished},
                              {"calls", calls}});
    for (const TransferView& transfer : group.transfers) {
      if (transfer.is_done) continue;
      json["groups"].back()["transfers"].push_back({{"call", describe(transfer)},
                                                    {"number", transfer.number},
                                                    {"waited_for", transfer.is_waited_for},
                                                    {"place", transfer.place}});
    }
    if (group.gpu_queued == 0 || !group.shows_gpu()) continue;
    json["groups"].back()["gpu"] = {
        {"queued", group.gpu_queued}, {"started", group.gpu_started}, {"finished", group.gpu_finished}};
  }
  return json;
}

OrderedJson describe_stacks(const RankStacks& rank) {
  OrderedJson threads = OrderedJson::array();
  for (const ThreadStack& thread : rank.threads) {
    threads.push_back({{"thread", thread.tid}, {"name", thread.name}, {"frames", thread.frames}});
  }
  return {{"rank", rank.rank}, {"source", rank.source}, {"threads", threads}, {"missing", rank.missing}};
}

}  // namespace

OrderedJson verdict_json(const Verdict& verdict) {
  OrderedJson json = {{"code", code_of(verdict.kind)},
                      {"verdict", title_of(verdict.kind)},
                      {"culprits", verdict.culprits},
                      {"waiting", verdict.waiting}};
  if (!verdict.group.empty()) {
    json["group"] = verdict.group;
    json["number"] = verdict.sequence;
    json["call"] = verdict.call;
    if (verdict.is_transfer) json["transfer"] = true;
  }
  if (!verdict.sides.empty()) json["sides"] = OrderedJson::array();
  for (const RankCall& side : verdict.sides) {
    OrderedJson call = {{"rank", side.rank}};
    call.update(describe_call(side.call));
    json["sides"].push_back(call);
  }
  return json;
}

OrderedJson stall_json(const HangNews& news) {
  OrderedJson json = verdict_json(news.verdict);
  json["age_seconds"] = seconds_json(news.age);
  json["class"] = name_of(news.judgement.hang_class);
  json["limit_seconds"] = seconds_json(news.judgement.limit);
  json["why_limit"] = news.judgement.why;
  if (news.judgement.ends_in)
    json["ends_in_seconds"] = seconds_json(std::max(*news.judgement.ends_in, std::chrono::nanoseconds(0)));
  json["ends_job"] = news.ends_job;
  json["ranks"] = OrderedJson::array();
  for (const RankView& rank : news.ranks) json["ranks"].push_back(describe_rank(rank));
  if (!news.evidence.stacks.empty()) json["stacks"] = OrderedJson::array();
  for (const RankStacks& rank : news.evidence.stacks) json["stacks"].push_back(describe_stacks(rank));
  if (!news.evidence.sources.empty()) json["sources"] = OrderedJson::array();
  for (const EvidenceSource& source : news.evidence.sources) {
    json["sources"].push_back({{"name", source.name}, {"text", source.text}, {"missing", source.missing}});
  }
  if (news.kind == HangNews::Kind::asked) json["stragglers"] = stragglers_json(news.stragglers);
  return json;
}

OrderedJson stragglers_json(const StragglerReport& report) {
  OrderedJson json = {
      {"collectives", report.collectives}, {"seconds", seconds_json(report.time)}, {"ranks", OrderedJson::array()}};
  for (const Straggler& rank : report.ranks) {
    json["ranks"].push_back(OrderedJson{{"rank", rank.rank},
                                        {"waited_for_seconds", seconds_json(rank.waited_for)},
                                        {"longest_wait_seconds", seconds_json(rank.longest_wait)},
                                        {"last", rank.last},
                                        {"late_seconds", seconds_json(rank.late)}});
  }
  return json;
}

}  // namespace ddp::launcher
