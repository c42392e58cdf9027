#include "launcher/run/ranks/rank_state.h"

#include <span>
#include <vector>

#include "launcher/run/ranks/waits.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

RankView training(int rank, std::uint64_t called, std::uint64_t finished, int waiting_threads) {
  RankView view;
  view.rank = rank;
  view.page.is_written = true;
  view.page.phase = RankPhase::training;
  view.page.waiting_threads = waiting_threads;
  view.page.groups.push_back({"world", rank, 2, 0, called, called, finished});
  return view;
}

using States = std::vector<RankState>;
States states_of(std::span<const RankView> ranks) {
  States states;
  for (const RankMoment& moment : moments_of(ranks)) states.push_back(moment.state);
  return states;
}
std::vector<bool> waited_for(std::span<const RankView> ranks) {
  std::vector<bool> awaited;
  for (const RankMoment& moment : moments_of(ranks)) awaited.push_back(moment.is_awaited);
  return awaited;
}

}  // namespace

TEST_CASE("a rank waits for a rank that has not called its collective") {
  const std::vector<RankView> ranks = {training(0, 5, 4, 1), training(1, 4, 4, 0)};
  CHECK(states_of(ranks) == States{RankState::waiting, RankState::computing});
  CHECK(waited_for(ranks) == std::vector<bool>{false, true});
}

TEST_CASE("ranks that have all called a collective are in it if a thread waits") {
  std::vector<RankView> ranks = {training(0, 5, 4, 1), training(1, 5, 4, 0)};
  CHECK(states_of(ranks) == States{RankState::collective, RankState::computing});
  CHECK(waited_for(ranks) == std::vector<bool>{false, false});
  ranks[1].page.groups[0].is_sampled = true;  // a reader of PyTorch does not know which threads wait
  CHECK(states_of(ranks)[1] == RankState::collective);
}

TEST_CASE("an outdated sample gives no state unless the rank has waited for long") {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  std::vector<RankView> ranks = {training(0, 5, 4, 0), training(1, 4, 4, 0)};
  for (RankView& rank : ranks) {
    rank.page.groups[0].is_sampled = true;
    rank.page.groups[0].is_live = false;
    rank.arrivals = {{{rank.page.groups[0].called, 10 * kSecond}}};
    rank.seen_at = 12 * kSecond;
  }
  CHECK(states_of(ranks) == States{RankState::unknown, RankState::unknown});
  CHECK(waited_for(ranks) == std::vector<bool>{false, false});
  for (RankView& rank : ranks) rank.seen_at = 14 * kSecond;
  CHECK(states_of(ranks) == States{RankState::waiting, RankState::unknown});
  for (RankView& rank : ranks) rank.page.groups[0].is_live = true;
  CHECK(states_of(ranks) == States{RankState::waiting, RankState::computing});
  CHECK(waited_for(ranks) == std::vector<bool>{false, true});
}

TEST_CASE("a rank of another node is not awaited in a call that is newer than its sample") {
  std::vector<RankView> ranks = {training(0, 5, 4, 1), training(1, 4, 4, 0)};
  ranks[0].seen_at = 1000;
  ranks[0].arrivals = {{{4, 700}, {5, 900}}};
  ranks[1].seen_at = 850;  // it may have called meanwhile
  CHECK(states_of(ranks) == States{RankState::collective, RankState::computing});
  CHECK(waited_for(ranks) == std::vector<bool>{false, false});
  ranks[1].seen_at = 950;
  CHECK(states_of(ranks)[0] == RankState::waiting);
  CHECK(waited_for(ranks) == std::vector<bool>{false, true});
  // A rank that was seen later without the call is waited for, whatever an earlier one did.
  ranks.push_back(training(2, 4, 4, 0));
  ranks[1].seen_at = 850;
  ranks[2].seen_at = 1000;
  CHECK(states_of(ranks)[0] == RankState::waiting);
  CHECK(waited_for(ranks) == std::vector<bool>{false, false, true});
}

TEST_CASE("a rank whose group has failed waits for nothing in it") {
  std::vector<RankView> ranks = {training(0, 5, 4, 1), training(1, 4, 4, 0)};
  ranks[0].page.groups[0].is_left = true;
  CHECK(states_of(ranks)[0] == RankState::computing);
  CHECK(waited_for(ranks) == std::vector<bool>{false, false});
}

TEST_CASE("ranks without collectives have the states of their phases") {
  RankView ended = training(0, 1, 1, 0);
  ended.has_ended = true;
  RankView stopped = training(1, 1, 1, 0);
  stopped.process.emplace().state = 'T';
  RankView loading = training(2, 1, 1, 0);
  loading.page.phase = RankPhase::data_loading;
  RankView nameless = loading;  // a program that names no phase
  nameless.page.phase = RankPhase::starting;
  RankView reporting = nameless;
  reporting.page.progress_done = 1;
  CHECK(states_of(std::vector{nameless, reporting}) == States{RankState::phase, RankState::computing});
  RankView sending = training(3, 1, 1, 1);
  sending.page.groups[0].transfers.push_back({.is_send = true, .is_waited_for = true});
  CHECK(states_of(std::vector{ended, stopped, loading, sending, RankView{}}) ==
        States{RankState::ended, RankState::stopped, RankState::phase, RankState::waiting, RankState::unknown});
}
