#include "launcher/run/job/restore_plan.h"

#include "support/catch.h"

using namespace ddp::launcher;
using ddp::wire::KeptState;
using ddp::wire::StateKind;
using ddp::wire::StatePlace;
using ddp::wire::StateTransfer;

namespace {

constexpr std::uint64_t kKey = 77;

int place_of(StateKind kind, std::int64_t step) {
  if (kind == StateKind::whole) return 10;
  return static_cast<int>((2 * step + (kind != StateKind::early)) % 8);
}

// Makes entries of a job of `world` ranks, whose ranks have the areas of their numbers on one node.
struct Memory {
  int world = 2;
  int first_rank = 0;
  int attempt = 0;
  RestoringNode node = {};

  Memory& keeps(int rank, StateKind kind, std::int64_t step, std::uint64_t key = kKey) {
    node.first_rank = first_rank;
    node.kept.push_back({step, 100, key, kind, attempt, rank, world, rank - first_rank, place_of(kind, step)});
    return *this;
  }
  RestoringNode with(int workers) {
    node.workers = workers;
    return node;
  }
};

std::int64_t step_of(const std::vector<ddp::wire::RestorePlan>& plans) {
  return plans.empty() ? -1 : plans.front().step;
}

std::int64_t step_on_one_node(Memory memory) {
  const std::vector nodes{memory.with(2)};
  return step_of(plan_restore(nodes));
}

}  // namespace

TEST_CASE("plan_restore() returns no plan if the ranks' entries or the whole state are missing") {
  CHECK(plan_restore(std::vector{RestoringNode{0, 2, {}}}).empty());
  CHECK(step_on_one_node(Memory().keeps(0, StateKind::final, 5).keeps(1, StateKind::final, 5)) == -1);
}

TEST_CASE("the newest complete step is restored") {
  Memory memory;
  memory.keeps(0, StateKind::final, 4).keeps(1, StateKind::final, 4).keeps(0, StateKind::whole, 4);
  memory.keeps(0, StateKind::final, 5).keeps(1, StateKind::final, 5);
  CHECK(step_on_one_node(memory) == 4);
  CHECK(step_on_one_node(memory.keeps(1, StateKind::whole, 5)) == 5);
  // A later attempt has gone on from what it chose.
  memory.attempt = 1;
  CHECK(step_on_one_node(
            memory.keeps(0, StateKind::final, 2).keeps(1, StateKind::final, 2).keeps(0, StateKind::whole, 2)) == 2);
}

TEST_CASE("a rank resumes from its early entry of a step that another rank has finished") {
  Memory memory;
  memory.keeps(0, StateKind::final, 5).keeps(0, StateKind::whole, 5).keeps(1, StateKind::early, 5);
  const auto plans = plan_restore(std::vector{memory.with(2)});
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].ranks[0].own == StatePlace{0, 3});
  CHECK(plans[0].ranks[0].shared == StatePlace{});
  CHECK(plans[0].ranks[1].own == StatePlace{1, 2});
  CHECK(plans[0].ranks[1].shared == StatePlace{0, 3});
  CHECK(plans[0].ranks[1].whole == StatePlace{0, 10});
  CHECK(plans[0].transfers.empty());
}

TEST_CASE("an early entry is not restored if no rank finished the step or if the random state changed after it") {
  CHECK(step_on_one_node(
            Memory().keeps(0, StateKind::early, 5).keeps(1, StateKind::early, 5).keeps(0, StateKind::whole, 5)) == -1);
  CHECK(step_on_one_node(
            Memory().keeps(0, StateKind::final_moved, 5).keeps(1, StateKind::early, 5).keeps(0, StateKind::whole, 5)) ==
        -1);
}

TEST_CASE("a step is restored only if the whole state of every key is kept") {
  Memory memory;
  memory.keeps(0, StateKind::final, 5, 1).keeps(1, StateKind::final, 5, 2).keeps(0, StateKind::whole, 5, 1);
  CHECK(step_on_one_node(memory) == -1);
  CHECK(step_on_one_node(memory.keeps(1, StateKind::whole, 5, 2)) == 5);
}

TEST_CASE("a step that one rank lacks is restored only if nothing at all is kept of that rank") {
  Memory memory;
  memory.keeps(0, StateKind::final, 5).keeps(0, StateKind::whole, 5);
  CHECK(step_on_one_node(memory) == 5);
  CHECK(step_on_one_node(memory.keeps(1, StateKind::final, 4)) == -1);
}

TEST_CASE("a node without the state gets it once from another node") {
  Memory first{.world = 3};
  first.keeps(0, StateKind::final, 5).keeps(0, StateKind::whole, 5);
  Memory second{.world = 3, .first_rank = 1};
  second.keeps(1, StateKind::early, 5).keeps(2, StateKind::early, 5);
  const auto plans = plan_restore(std::vector{first.with(1), second.with(2)});
  REQUIRE(plans.size() == 2);
  CHECK(plans[0].transfers == plans[1].transfers);
  // The entry of a rank that has finished the step, and the whole state, each once. The first is written over one that
  // is needed last.
  REQUIRE(plans[1].transfers.size() == 2);
  CHECK(plans[1].transfers[0] == StateTransfer{0, 1, {0, 3}, {0, 1}, 100});
  CHECK(plans[1].transfers[1] == StateTransfer{0, 1, {0, 10}, {0, 10}, 100});
  CHECK(plans[1].ranks[1].whole == StatePlace{0, 10});
  CHECK(plans[1].ranks[1].shared == StatePlace{0, 1});
}

TEST_CASE("after a change of the world size the ranks restore the whole state but no state of their own") {
  Memory memory{.world = 4};
  for (int rank = 0; rank < 4; ++rank) memory.keeps(rank, StateKind::final, 5);
  memory.keeps(0, StateKind::whole, 5);
  const auto plans = plan_restore(std::vector{memory.with(2)});
  REQUIRE(step_of(plans) == 5);
  CHECK(plans[0].ranks[0].own == StatePlace{});
  CHECK(plans[0].ranks[1].whole == StatePlace{0, 10});
}

TEST_CASE("an attempt has made progress if a rank has finished a step") {
  Memory memory{.attempt = 1};
  memory.keeps(0, StateKind::early, 5);
  CHECK_FALSE(has_finished_step(memory.node.kept, 1));
  memory.keeps(0, StateKind::final, 5);
  CHECK(has_finished_step(memory.node.kept, 1));
  CHECK_FALSE(has_finished_step(memory.node.kept, 0));
}

TEST_CASE("a restore plan says how many finished steps are lost") {
  Memory memory;
  memory.keeps(0, StateKind::final, 4).keeps(1, StateKind::final, 4).keeps(0, StateKind::whole, 4);
  CHECK(plan_restore(std::vector{memory.with(2)}).front().lost_steps == 0);
  memory.keeps(0, StateKind::final, 6).keeps(1, StateKind::early, 6);
  CHECK(plan_restore(std::vector{memory.with(2)}).front().lost_steps == 2);
}

TEST_CASE("a restore plan is described in one sentence") {
  ddp::wire::RestorePlan plan;
  CHECK(describe(plan).empty());
  plan.step = 7;
  plan.ranks.resize(2);
  CHECK(describe(plan) == "the ranks go on after step 7, which they have kept in memory; no step is lost");
  plan.lost_steps = 1;
  plan.transfers = {{.bytes = 1U << 20}, {.bytes = 1U << 20}};
  CHECK(describe(plan) ==
        "the ranks go on after step 7, which they have kept in memory (2 MiB come from other nodes); 1 step is lost");
  plan.lost_steps = 3;
  CHECK(describe(plan).ends_with("; 3 steps are lost"));
}

TEST_CASE("an image is used if it is newer than the state in memory") {
  Memory memory;
  memory.keeps(0, StateKind::final, 5).keeps(1, StateKind::final, 5).keeps(0, StateKind::whole, 5);
  const std::vector nodes{memory.with(2)};
  const auto plan = [&](std::vector<ddp::wire::KeptImage> images) {
    return plan_restore(nodes, {std::move(images), 1000}).front();
  };
  CHECK(plan({{1000, 0, 5, 2, true}}).image.empty());
  CHECK(plan({{1000, 0, 4, 2, true}}).image.empty());
  CHECK(plan({{900, 7, 900, 2, true}}).image.empty());   // of an earlier job
  CHECK(plan({{1100, 7, 900, 2, true}}).image.empty());  // of a later one, which only a user can have begun
  CHECK(plan({{1000, 0, 8, 4, false}}).image.empty());   // of a job of four ranks that have parts
  const auto newer = plan({{1000, 0, 8, 2, false}, {1000, 0, 6, 2, false}});
  CHECK(newer.image == "image-1000-0-step-8-of-2-parts");
  CHECK(newer.step == 8);
  CHECK(newer.attempt == 0);
  CHECK(newer.ranks.size() == 2);
  CHECK(newer.ranks[0] == ddp::wire::RankRestore{});
  CHECK(describe(newer) ==
        "the ranks go on after step 8, from image-1000-0-step-8-of-2-parts in --image-dir; no step is lost");
}

TEST_CASE("a job begins with the newest image of earlier jobs") {
  const std::vector nodes{RestoringNode{0, 2, {}}, RestoringNode{2, 2, {}}};
  const auto plans =
      plan_restore(nodes, {{{800, 0, 90, 4, false}, {900, 1, 40, 8, true}, {900, 0, 70, 8, true}}, 1000});
  REQUIRE(plans.size() == 2);
  CHECK(plans[1].step == 40);
  CHECK(plans[1].attempt == -1);
  CHECK(plans[1].ranks.size() == 2);
  CHECK(describe(plans[1]) == "the ranks go on after step 40, from image-900-1-step-40-of-8-replicas in --image-dir");
  CHECK(plan_restore(nodes, {{{900, 1, 40, 8, false}}, 1000}).empty());
}

TEST_CASE("an image of this job says how many steps are lost") {
  Memory memory;
  memory.keeps(0, StateKind::final, 12);
  const std::vector nodes{memory.with(2)};
  const auto plans = plan_restore(nodes, {{{1000, 0, 8, 2, true}}, 1000});
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].lost_steps == 4);
}

TEST_CASE("a new rank begins with the state that all ranks have in common") {
  Memory memory;
  memory.keeps(0, StateKind::final, 5).keeps(0, StateKind::whole, 5);
  const std::vector nodes{memory.with(1), RestoringNode{1, 1, {}}};  // the node of rank 1 was lost
  const auto plans = plan_restore(nodes);
  REQUIRE(plans.size() == 2);
  CHECK(plans[0].ranks[0].shared == StatePlace{});
  CHECK(plans[1].ranks[0].own == StatePlace{});
  CHECK(plans[1].ranks[0].shared.area == 0);
  CHECK(plans[1].ranks[0].whole.area == 0);
  CHECK(plans[1].transfers.size() == 2);
  // With another number of ranks, all of them are new.
  const auto more = plan_restore(std::vector{memory.with(3)});
  REQUIRE(more.size() == 1);
  CHECK(more[0].ranks[2].shared.area == 0);
}
