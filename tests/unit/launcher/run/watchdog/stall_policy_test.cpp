#include "launcher/run/watchdog/stall_policy.h"

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Returns the facts about a rank that others wait for, in a job that did a collective one second before.
StallFacts stall_of(VerdictKind kind, std::chrono::nanoseconds age) {
  StallFacts facts;
  facts.kind = kind;
  facts.age = age;
  facts.blamed_for = age;
  facts.progress_age = age;
  facts.still_for = age;
  facts.is_warm = true;
  facts.longest_pause = 1s;
  return facts;
}

const HangPlan kDefault;
const HangPlan kUsers{60s, HangLimit::fixed, HangAction::kill};
const HangPlan kLearnt{std::nullopt, HangLimit::learnt, HangAction::kill};

constexpr auto kGuessed = {VerdictKind::not_called, VerdictKind::each_other, VerdictKind::transport,
                           VerdictKind::gpu_behind};

}  // namespace

TEST_CASE("a hang that nothing can resolve ends the job within seconds under any options") {
  for (const HangPlan& plan : {kDefault, kUsers, kLearnt}) {
    for (const VerdictKind kind : {VerdictKind::different_call, VerdictKind::different_arguments}) {
      const auto judgement = judge_stall(stall_of(kind, 0s), plan);
      CHECK(judgement.hang_class == HangClass::certain);
      CHECK(judgement.ends_in == 1s);
      CHECK(judgement.is_warning);
    }
    CHECK(judge_stall(stall_of(VerdictKind::ended, 2s), plan).ends_in == 3s);
    StallFacts circle = stall_of(VerdictKind::each_other, 0s);
    circle.is_proven = true;
    circle.still_for = 0s;
    circle.more_time = 1h;  // more time does not help here
    CHECK(judge_stall(circle, plan).hang_class == HangClass::certain);
    CHECK(judge_stall(circle, plan).ends_in == 5s);
  }
}

TEST_CASE("without a user's limit a rank is given up after half an hour without a sign of life") {
  for (const VerdictKind kind : kGuessed) {
    const auto judgement = judge_stall(stall_of(kind, 29min), kDefault);
    CHECK(judgement.hang_class == HangClass::unknown);
    CHECK(judgement.ends_in == 1min);
    CHECK(judgement.limit == 30min);
    CHECK(judgement.why == (all_wait(kind) ? "no data has moved" : "no sign of life"));
    CHECK(*judge_stall(stall_of(kind, 31min), kDefault).ends_in <= 0s);
  }
}

TEST_CASE("a rank that was only now blamed is not given up yet") {
  for (const VerdictKind kind : kGuessed) {
    StallFacts facts = stall_of(kind, 24h);
    facts.blamed_for = 1s;
    CHECK(judge_stall(facts, kDefault).ends_in == 4s);
    CHECK(judge_stall(facts, kUsers).ends_in == 4s);
    const HangPlan shorter{3s, HangLimit::fixed, HangAction::kill};
    CHECK(judge_stall(facts, shorter).ends_in == 2s);
  }
  StallFacts differs = stall_of(VerdictKind::different_call, 2s);
  differs.blamed_for = 0s;
  CHECK(*judge_stall(differs, kDefault).ends_in <= 0s);
}

TEST_CASE("without a user's limit a rank that shows life is never given up") {
  for (const VerdictKind kind : kGuessed) {
    StallFacts facts = stall_of(kind, 24h);
    facts.still_for = 5s;
    CHECK(*judge_stall(facts, kDefault).ends_in > 29min);
  }
}

TEST_CASE("without a user's limit a rank with too little information is never given up") {
  for (const VerdictKind kind : kGuessed) {
    StallFacts unseen = stall_of(kind, 24h);
    unseen.still_for.reset();
    CHECK_FALSE(judge_stall(unseen, kDefault).ends_in);
    CHECK_FALSE(judge_stall(unseen, kLearnt).ends_in);
    StallFacts partial = stall_of(kind, 24h);
    partial.is_partial = true;
    CHECK_FALSE(judge_stall(partial, kDefault).ends_in);
    CHECK_FALSE(judge_stall(partial, kLearnt).ends_in);
  }
  CHECK_FALSE(judge_stall(stall_of(VerdictKind::behind, 24h), kDefault).ends_in);
  CHECK_FALSE(judge_stall(stall_of(VerdictKind::behind, 24h), kLearnt).ends_in);
  StallFacts nobody_waits = stall_of(VerdictKind::silent, 24h);
  nobody_waits.still_for.reset();
  CHECK_FALSE(judge_stall(nobody_waits, kDefault).ends_in);
  CHECK_FALSE(judge_stall(nobody_waits, kLearnt).ends_in);
}

TEST_CASE("ranks that wait for others are given up when no rank shows a sign of life") {
  const auto judgement = judge_stall(stall_of(VerdictKind::silent, 10min), kDefault);
  CHECK(judgement.hang_class == HangClass::unknown);
  CHECK(judgement.ends_in == 20min);
  CHECK(judgement.first_word == 15s);
}

TEST_CASE("only program progress counts for a user's limit") {
  for (const VerdictKind kind : {VerdictKind::not_called, VerdictKind::each_other, VerdictKind::transport,
                                 VerdictKind::gpu_behind, VerdictKind::silent, VerdictKind::behind}) {
    StallFacts busy = stall_of(kind, 50s);
    busy.still_for = 0s;
    busy.is_warm = false;
    busy.is_partial = true;
    const auto judgement = judge_stall(busy, kUsers);
    CHECK(judgement.hang_class == HangClass::users_limit);
    CHECK(judgement.ends_in == 10s);
    CHECK(judgement.limit == 60s);
    CHECK(judgement.why == "--hang-timeout");
    busy.progress_age = 20s;  // a heartbeat came
    CHECK(judge_stall(busy, kUsers).ends_in == 40s);
  }
}

TEST_CASE("a rank that was active alone for long is reported before it ends the job") {
  StallFacts facts = stall_of(VerdictKind::not_called, 2s);
  facts.progress_age = 24h;
  const auto judgement = judge_stall(facts, kUsers);
  CHECK(judgement.first_word == 5s);
  CHECK(judgement.ends_in == 5s);
}

TEST_CASE("a rank that requested more time gets it") {
  StallFacts facts = stall_of(VerdictKind::not_called, 55s);
  facts.more_time = 100s;
  CHECK(judge_stall(facts, kUsers).ends_in == 100s);
  CHECK(judge_stall(facts, kUsers).limit == 155s);
  CHECK(judge_stall(facts, kUsers).why == "a rank asked for more time");
  facts.more_time = 2s;  // this is less than the time that is left anyway
  CHECK(judge_stall(facts, kUsers).ends_in == 5s);
}

TEST_CASE("learnt limits end a job only on request") {
  StallFacts facts = stall_of(VerdictKind::not_called, 40s);
  facts.still_for = 25s;
  CHECK(judge_stall(facts, kLearnt).ends_in == 5s);
  CHECK(judge_stall(facts, kLearnt).limit == 30s);
  CHECK(judge_stall(facts, kLearnt).why == "the pauses so far were short");
  facts.longest_pause = 10s;
  CHECK(judge_stall(facts, kLearnt).ends_in == 175s);
  CHECK(judge_stall(facts, kLearnt).why == "20 times the longest pause so far, 10.0 s");
  facts.is_warm = false;
  CHECK(judge_stall(facts, kLearnt).limit == 30min);
  // The limit that is over first counts.
  HangPlan both = kUsers;
  both.limit = HangLimit::learnt;
  CHECK(judge_stall(stall_of(VerdictKind::not_called, 25s), both).ends_in == 5s);
  facts = stall_of(VerdictKind::not_called, 55s);
  facts.still_for = 0s;
  CHECK(judge_stall(facts, both).ends_in == 5s);
}

TEST_CASE("the first report follows a pause that is unusual for the job") {
  const auto word = [](VerdictKind kind, auto pause, bool is_warm, const HangPlan& plan) {
    StallFacts facts = stall_of(kind, 0s);
    facts.longest_pause = pause;
    facts.is_warm = is_warm;
    return judge_stall(facts, plan).first_word;
  };
  CHECK(word(VerdictKind::not_called, 100ms, true, kDefault) == 5s);
  CHECK(word(VerdictKind::not_called, 5s, true, kDefault) == 20s);
  CHECK(word(VerdictKind::not_called, 60s, true, kDefault) == 30s);
  CHECK(word(VerdictKind::transport, 60s, false, kDefault) == 15s);
  CHECK(word(VerdictKind::each_other, 60s, false, kDefault) == 5s);
  CHECK(word(VerdictKind::behind, 60s, false, kDefault) == 150s);
  CHECK(word(VerdictKind::not_called, 60s, true, kUsers) == 15s);
  CHECK(word(VerdictKind::silent, 60s, true, kUsers) == 15s);
  CHECK(word(VerdictKind::not_called, 60s, true, {8s, HangLimit::fixed, HangAction::kill}) == 5s);
  CHECK(word(VerdictKind::not_called, 60s, true, {2s, HangLimit::fixed, HangAction::kill}) == 2s);
}

TEST_CASE("a report is a note while there are signs of life") {
  StallFacts facts = stall_of(VerdictKind::not_called, 9min);
  facts.still_for = 5s;
  CHECK_FALSE(judge_stall(facts, kDefault).is_warning);
  facts.still_for = 1min;
  CHECK(judge_stall(facts, kDefault).is_warning);
  facts.still_for.reset();
  CHECK_FALSE(judge_stall(facts, kDefault).is_warning);
  facts.age = 10min;
  CHECK(judge_stall(facts, kDefault).is_warning);
  // A hang that is going to end the job causes a warning.
  facts = stall_of(VerdictKind::not_called, 29s);
  facts.still_for = 0s;
  CHECK_FALSE(judge_stall(facts, kUsers).is_warning);
  facts.progress_age = 30s;
  CHECK(judge_stall(facts, kUsers).is_warning);
  // Unless the limit is short: then the first report is only seconds old.
  facts.progress_age = 8s;
  CHECK_FALSE(judge_stall(facts, {10s, HangLimit::fixed, HangAction::kill}).is_warning);
}

TEST_CASE("a node that sees only its own ranks never ends a job that others may resolve") {
  for (const VerdictKind kind : {VerdictKind::transport, VerdictKind::not_called, VerdictKind::silent}) {
    StallFacts facts = stall_of(kind, 24h);
    facts.others_judge = true;
    facts.is_partial = kind != VerdictKind::silent;
    CHECK_FALSE(judge_stall(facts, kUsers).ends_in);
    facts.others_judge = false;
    CHECK(judge_stall(facts, kUsers).ends_in);
  }
}

TEST_CASE("a node that sees only its own ranks gives the others time to judge first") {
  StallFacts facts = stall_of(VerdictKind::not_called, 55s);
  facts.others_judge = true;
  CHECK(judge_stall(facts, kUsers).ends_in == 10s);
  facts.kind = VerdictKind::ended;
  facts.age = 0s;
  CHECK(judge_stall(facts, kDefault).ends_in == 10s);
}

TEST_CASE("an exited rank gives no warning before it is certain that others still wait for it") {
  for (const HangPlan& plan : {kDefault, kUsers}) {
    CHECK_FALSE(judge_stall(stall_of(VerdictKind::ended, 0s), plan).is_warning);
    CHECK(judge_stall(stall_of(VerdictKind::ended, 1s), plan).is_warning);
  }
}

TEST_CASE("a user's limit is longer while no rank waits for an operation that all began") {
  StallFacts facts = stall_of(VerdictKind::not_called, 61s);
  CHECK(*judge_stall(facts, kUsers).ends_in < 0s);
  facts.unawaited = 61s;
  CHECK(*judge_stall(facts, kUsers).ends_in == 179s);
  CHECK(judge_stall(facts, kUsers).why == "4 times --hang-timeout, as long as it is not certain that a rank waits");
  // A rank has just begun to wait. The stall is reported before it ends the job.
  facts.unawaited = 56s;
  CHECK(*judge_stall(facts, kUsers).ends_in == 2s);
  CHECK(judge_stall(facts, kUsers).why == "--hang-timeout");
  facts.kind = VerdictKind::different_call;
  CHECK(judge_stall(facts, kUsers).hang_class == HangClass::certain);
}

TEST_CASE("a report waits for the stack that shows whether an awaited rank itself waits") {
  StallFacts facts = stall_of(VerdictKind::not_called, 6s);
  CHECK(judge_stall(facts, kDefault).first_word == 5s);
  facts.is_open = true;
  CHECK(judge_stall(facts, kDefault).first_word == 8s);
}

TEST_CASE("a verdict from stacks is never certain") {
  for (const VerdictKind kind : {VerdictKind::ended, VerdictKind::different_call, VerdictKind::different_arguments}) {
    StallFacts facts = stall_of(kind, 20s);
    facts.is_by_stack = true;
    CHECK(judge_stall(facts, kUsers).hang_class == HangClass::users_limit);
    CHECK(judge_stall(facts, kDefault).hang_class == HangClass::unknown);
    CHECK(*judge_stall(facts, kDefault).ends_in > 20min);
    facts.is_warm = true;
    HangPlan learnt = kDefault;
    learnt.limit = HangLimit::learnt;
    CHECK(*judge_stall(facts, learnt).ends_in > 20min);
  }
}
