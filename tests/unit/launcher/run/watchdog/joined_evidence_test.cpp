#include "launcher/run/watchdog/joined_evidence.h"

#include <string>
#include <utility>
#include <vector>

#include "launcher/run/ranks/torch_stacks.h"
#include "launcher/run/watchdog/evidence/ras_client.h"
#include "launcher/run/watchdog/verdict_text.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

using Frames = std::vector<std::string>;

const Frames kInAllReduce = {"all_reduce (distributed/distributed_c10d.py:3211)",
                             "wrapper (distributed/c10d_logger.py:83)", "<module> (train.py:20)"};
const Frames kInBarrier = {"barrier (distributed/distributed_c10d.py:5102)", "wrapper (distributed/c10d_logger.py:83)",
                           "load_batch (train.py:12)", "<module> (train.py:19)"};
const Frames kInInit = {"_create_c10d_store (distributed/rendezvous.py:201)",
                        "_env_rendezvous_handler (distributed/rendezvous.py:282)",
                        "init_process_group (distributed/distributed_c10d.py:1756)",
                        "wrapper (distributed/c10d_logger.py:95)", "<module> (train.py:4)"};
const Frames kInOwnLine = {"load_batch (train.py:14)", "<module> (train.py:19)"};
const Frames kInLock = {"wait (python3.13/threading.py:359)", "get (python3.13/queue.py:213)", "load (train.py:7)"};

struct Rank {
  Frames frames;
  StackSource source = StackSource::py_spy;
  ProcessSample process = {'S', 0, 0, "futex_do_wait"};
};

HangNews news_of(const std::vector<Rank>& ranks) {
  HangNews news;
  news.kind = HangNews::Kind::hung;
  for (const Rank& rank : ranks) {
    const auto number = static_cast<int>(news.ranks.size());
    RankView view;
    view.rank = number;
    view.pid = 100 + number;
    view.process = rank.process;
    news.ranks.push_back(view);
    RankStacks stacks{number, rank.source, {}, {}};
    if (!rank.frames.empty()) stacks.threads.push_back({100 + number, "python3", rank.frames});
    news.evidence.stacks.push_back(stacks);
  }
  return news;
}

std::string headline_of(HangNews news) {
  name_suspects_by_stacks(news);
  if (news.verdict.kind == VerdictKind::silent) return "";
  CHECK(news.verdict.is_by_stack);
  return hang_headline(news.verdict);
}
std::string headline_of(const std::vector<Rank>& ranks) {
  return headline_of(news_of(ranks));
}

const Rank kWaits = {kInAllReduce};
const Rank kComputes = {kInOwnLine, StackSource::py_spy, {'R', 0, 0, ""}};

const std::string kRasText =
    "NCCL version 2.28.9 compiled with CUDA 12.9\n\nErrors\n======\n\n"
    "#0-0 (f31e5874c3f25459) ERROR\n  Asynchronous error on 1 rank\n  Rank 2 reported NCCL_ERROR\n\n"
    "Warnings\n========\n\n"
    "#0-0 (f31e5874c3f25459) MISMATCH\n"
    "  Communicator ranks have different AllReduce operation counts\n"
    "  3 ranks have launched up to operation 101\n"
    "  Rank 1 has launched up to operation 100 -- GPU 0 managed by process 6247 on node 10.0.109.86\n\n";

HangNews counted_news(int culprit) {
  HangNews news;
  news.verdict.kind = VerdictKind::not_called;
  news.verdict.culprits = {culprit};
  for (int rank = 0; rank < 4; ++rank) {
    news.ranks.emplace_back();
    news.ranks.back().rank = rank;
    news.ranks.back().pid = rank == 1 ? 6247 : 10 + rank;
  }
  news.evidence.sources = {{"NCCL RAS", kRasText, ras_essence(kRasText, kRasEssenceLines), {}}};
  return news;
}

}  // namespace

TEST_CASE("stacks taken at the limit name the ranks that are in no collective") {
  const std::string expected =
      "rank 1 is in no collective; ranks 0, 2 wait in all_reduce at train.py:20  [DDP-H03 not called]";
  CHECK(headline_of({kWaits, kComputes, kWaits}) == expected);
  CHECK(headline_of({kWaits, {kInOwnLine, StackSource::py_spy, {'S', 0, 0, "hrtimer_nanosleep"}}, kWaits}) == expected);
  CHECK(headline_of({kWaits, {kInOwnLine, StackSource::py_spy, {'D', 0, 0, "folio_wait_bit"}}, kWaits}) == expected);
  CHECK(headline_of({kWaits, {kInLock}, kWaits}) == expected);
  CHECK(headline_of({kComputes, {kInInit}, {kInInit}}) ==
        "rank 0 is in no collective; ranks 1, 2 wait in init_process_group at train.py:4  [DDP-H03 not called]");
}

TEST_CASE("stacks taken at the limit name the ranks that are in another collective") {
  CHECK(headline_of({kWaits, {kInBarrier}, kWaits}) ==
        "rank 1 waits in a different collective from the other ranks: rank 0 in all_reduce at train.py:20, rank 1 in "
        "barrier at train.py:12  [DDP-H04 different collective]");
}

TEST_CASE("stacks taken at the limit correct a wait that earlier ones seemed to show") {
  // The first stack of rank 1 could not be read in time, so it might wait for the same operation as the others.
  const auto corrected = [](const std::vector<Rank>& ranks, bool is_by_stack,
                            VerdictKind kind = VerdictKind::transport) {
    HangNews news = news_of(ranks);
    news.verdict.kind = kind;
    news.verdict.is_by_stack = is_by_stack;
    news.verdict.waiting = {0, 1, 2};
    for (RankView& rank : news.ranks) {
      add_wait_by_stack(rank, 3, rank.rank == 1 ? CallView() : CallView{.what = "all_reduce", .place = "train.py:20"});
    }
    name_suspects_by_stacks(news);
    for (const RankView& rank : news.ranks) CHECK(rank.page.groups.size() <= 1);
    return std::pair(news.verdict.kind, news.verdict.culprits);
  };
  CHECK(corrected({kWaits, {kInBarrier}, kWaits}, true) == std::pair(VerdictKind::different_call, std::vector{1}));
  CHECK(corrected({kWaits, kComputes, kWaits}, true) == std::pair(VerdictKind::not_called, std::vector{1}));
  CHECK(corrected({kWaits, kWaits, kWaits}, true) == std::pair(VerdictKind::transport, std::vector<int>()));
  CHECK(corrected({kWaits, {{}}, kWaits}, true) == std::pair(VerdictKind::transport, std::vector<int>()));
  // While the stack of rank 2 was not known, one rank was in each call, and both were named.
  CHECK(corrected({kWaits, {kInBarrier}, kWaits}, true, VerdictKind::different_call) ==
        std::pair(VerdictKind::different_call, std::vector{1}));
  // What pages show counts more than stacks.
  CHECK(corrected({kWaits, kComputes, kWaits}, false) == std::pair(VerdictKind::transport, std::vector<int>()));
}

TEST_CASE("stacks taken at the limit show what the others wait for if steps show that a rank is behind") {
  const auto judged = [](const std::vector<Rank>& ranks) {
    HangNews news = news_of(ranks);
    news.verdict.kind = VerdictKind::behind;
    news.verdict.culprits = {1};
    news.verdict.waiting = {0, 2};
    name_suspects_by_stacks(news);
    return std::pair(news.verdict.kind, news.verdict.culprits);
  };
  CHECK(judged({kWaits, kComputes, kWaits}) == std::pair(VerdictKind::not_called, std::vector{1}));
  CHECK(judged({kWaits, kWaits, kComputes}) == std::pair(VerdictKind::behind, std::vector{1}));
  CHECK(judged({kComputes, kComputes, kComputes}) == std::pair(VerdictKind::behind, std::vector{1}));
}

TEST_CASE("native stacks are joined with those of Python") {
  const Rank native = {
      {"pthread_cond_wait (libc.so.6)", "c10d::Work::wait (libtorch_cpu.so)", "_PyEval_Eval (python3)"}, StackSource::eu_stack};
  CHECK(headline_of({native, kComputes, native}) ==
        "rank 1 is in no collective; ranks 0, 2 wait in a collective  [DDP-H03 not called]");
}

TEST_CASE("no rank is named if none or all of them wait in a collective") {
  CHECK(headline_of({kWaits, kWaits, kWaits}).empty());
  CHECK(headline_of({kComputes, kComputes, {kInLock}}).empty());
  CHECK(headline_of(std::vector<Rank>{}).empty());
}

TEST_CASE("a rank whose stack does not show its wait is not named") {
  const Rank in_work = {kInOwnLine};  // it may be in Work.wait()
  CHECK(headline_of({kWaits, in_work, kWaits}).empty());
  CHECK(headline_of({kWaits, {{}}, kWaits}).empty());
  CHECK(headline_of({kWaits, {{"futex_do_wait (kernel)"}, StackSource::kernel}, kWaits}).empty());
  CHECK(headline_of({kWaits, in_work, {kInBarrier}}).empty());  // it may be missing in both, in two groups
  CHECK(headline_of({kWaits, in_work, kComputes}) ==
        "rank 2 is in no collective; rank 0 waits in all_reduce at train.py:20  [DDP-H03 not called]");
  HangNews news = news_of({kWaits, kComputes});
  news.ranks[1].process.reset();
  CHECK(headline_of(news).empty());
}

TEST_CASE("an exited rank is named before those that are in no collective") {
  HangNews news = news_of({kWaits, {{}}, kWaits});
  news.ranks[1].has_ended = true;
  CHECK(headline_of(news) == "rank 1 has exited, and ranks 0, 2 wait in all_reduce at train.py:20  [DDP-H01 ended]");
}

TEST_CASE("a verdict known without stacks is kept") {
  HangNews news = news_of({kWaits, kComputes});
  news.verdict.waiting = {0};
  CHECK(headline_of(news).empty());
  news.verdict = {};
  news.verdict.kind = VerdictKind::behind;
  name_suspects_by_stacks(news);
  CHECK(news.verdict.kind == VerdictKind::behind);
}

TEST_CASE("RAS lines that repeat the verdict are merged to one line") {
  HangNews news = counted_news(1);
  REQUIRE(news.evidence.sources[0].essence.size() == 7);
  join_ras(news);
  CHECK(news.evidence.sources[0].essence ==
        std::vector<std::string>{"it counts fewer operations on rank 1, too", "#0-0 (f31e5874c3f25459) ERROR",
                                 "  Asynchronous error on 1 rank", "  Rank 2 reported NCCL_ERROR"});
  CHECK(news.evidence.sources[0].text == kRasText);
}

TEST_CASE("RAS output that contradicts the verdict, or a verdict without ranks, is kept completely") {
  const auto stays = [](HangNews news) {
    const auto before = news.evidence.sources;
    join_ras(news);
    return news.evidence.sources == before;
  };
  CHECK(stays(counted_news(2)));
  HangNews without = counted_news(1);
  without.verdict.culprits = {};
  CHECK(stays(without));
  HangNews several = counted_news(1);
  several.verdict.culprits = {1, 3};
  CHECK(stays(several));
  HangNews other = counted_news(1);
  other.ranks[1].pid = 999;
  CHECK(stays(other));
}
