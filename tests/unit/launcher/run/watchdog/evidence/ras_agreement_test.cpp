#include "launcher/run/watchdog/evidence/ras_agreement.h"

#include <string>
#include <vector>

#include "launcher/run/watchdog/evidence/ras_client.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

const std::string kText =
    "NCCL version 2.28.9 compiled with CUDA 12.9\n\nErrors\n======\n\n"
    "#0-0 (f31e5874c3f25459) ERROR\n  Asynchronous error on 1 rank\n  Rank 2 reported NCCL_ERROR\n\n"
    "Warnings\n========\n\n"
    "#0-0 (f31e5874c3f25459) MISMATCH\n"
    "  Communicator ranks have different AllReduce operation counts\n"
    "  3 ranks have launched up to operation 101\n"
    "  Rank 1 has launched up to operation 100 -- GPU 0 managed by process 6247 on node 10.0.109.86\n\n";

HangNews news_of(int culprit) {
  HangNews news;
  news.verdict.kind = VerdictKind::not_called;
  news.verdict.culprits = {culprit};
  for (int rank = 0; rank < 4; ++rank) {
    news.ranks.emplace_back();
    news.ranks.back().rank = rank;
    news.ranks.back().pid = rank == 1 ? 6247 : 10 + rank;
  }
  news.evidence.sources = {{"NCCL RAS", kText, ras_essence(kText, kRasEssenceLines), {}}};
  return news;
}

}  // namespace

TEST_CASE("RAS lines that repeat the verdict are merged to one line") {
  HangNews news = news_of(1);
  REQUIRE(news.evidence.sources[0].essence.size() == 7);
  join_ras(news);
  CHECK(news.evidence.sources[0].essence ==
        std::vector<std::string>{"it counts fewer operations on rank 1, too", "#0-0 (f31e5874c3f25459) ERROR",
                                 "  Asynchronous error on 1 rank", "  Rank 2 reported NCCL_ERROR"});
  CHECK(news.evidence.sources[0].text == kText);
}

TEST_CASE("RAS output that contradicts the verdict, or a verdict without ranks, is kept completely") {
  const auto stays = [](HangNews news) {
    const auto before = news.evidence.sources;
    join_ras(news);
    return news.evidence.sources == before;
  };
  CHECK(stays(news_of(2)));
  HangNews without = news_of(1);
  without.verdict.culprits = {};
  CHECK(stays(without));
  HangNews several = news_of(1);
  several.verdict.culprits = {1, 3};
  CHECK(stays(several));
  HangNews other = news_of(1);
  other.ranks[1].pid = 999;
  CHECK(stays(other));
}
