// Makes ranks in groups, as the launcher sees them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/run/ranks/root_causes.h"

namespace ddp::launcher {

inline CallView call_number(std::uint64_t sequence, std::uint64_t fingerprint = 7,
                            const std::string& what = "all_reduce f32[8]", const std::string& name = "bucket 0") {
  return {sequence, fingerprint, 1000 * sequence, what, name, "train.cpp:88"};
}

// Makes the ranks of one node, in the group "world".
class Ranks {
 public:
  explicit Ranks(int count) {
    for (int rank = 0; rank < count; ++rank) {
      RankView view;
      view.rank = rank;
      view.pid = 100 + rank;
      view.process = ProcessSample{'S', 0, 0, ""};
      view.page.is_written = true;
      view.page.groups.push_back({"world", rank, count, 0, 0, 0, 0, 0, 0});
      view.calls.emplace_back();
      views.push_back(view);
    }
  }
  Ranks& at(int rank, std::uint64_t called, std::uint64_t finished) {
    GroupView& group = views[rank].page.groups[0];
    group.called = called;
    group.started = called;
    group.finished = finished;
    views[rank].calls[0].clear();
    for (std::uint64_t i = called > 3 ? called - 3 : 1; i <= called; ++i)
      views[rank].calls[0].push_back(call_number(i));
    return *this;
  }
  Ranks& gpu(int rank, std::uint64_t queued, std::uint64_t started, std::uint64_t finished) {
    GroupView& group = views[rank].page.groups[0];
    group.gpu_queued = queued;
    group.gpu_started = started;
    group.gpu_finished = finished;
    return *this;
  }
  Ranks& also_in(const std::string& name, int rank, int group_rank, int size, std::uint64_t called,
                 std::uint64_t finished) {
    views[rank].page.groups.push_back({name, group_rank, size, 1, called, called, finished, 0, 0});
    views[rank].calls.emplace_back();
    return *this;
  }
  // Adds a transfer that a thread waits for.
  Ranks& send(int rank, int peer, std::uint64_t number) { return transfer(rank, {true, peer, number}); }
  Ranks& recv(int rank, int peer, std::uint64_t number) { return transfer(rank, {false, peer, number}); }
  Ranks& transfer(int rank, TransferView view) {
    view.is_waited_for = true;
    view.what = "f32[8]";
    views[static_cast<std::size_t>(rank)].page.groups[0].transfers.push_back(view);
    return *this;
  }
  // Returns the first verdict, or std::nullopt if there is none.
  std::optional<Verdict> verdict() const {
    const std::vector<Verdict> verdicts = find_verdicts(views);
    return verdicts.empty() ? std::nullopt : std::optional(verdicts.front());
  }

  std::vector<RankView> views;
};

// Returns text such as "not called: 1, 2", with the ranks that are to blame.
inline std::string blame_in(const std::optional<Verdict>& verdict) {
  if (!verdict) return "no verdict";
  std::vector<std::string> ranks;
  for (const int rank : verdict->culprits) ranks.push_back(std::to_string(rank));
  return std::string(title_of(verdict->kind)) + ": " + (ranks.empty() ? "none" : base::join(ranks, ", "));
}

}  // namespace ddp::launcher
