#include "store/server/store_report_builder.h"

#include "support/catch.h"
#include "support/store_conversation.h"

using namespace ddp::test;
using namespace ddp::store;
using std::chrono::seconds;

namespace {

// Returns the sentence if the client gives up a wait for `keys` that began half a minute ago.
std::string sentence(StoreTable& table, ConnectionId id, const std::vector<std::string>& keys) {
  const TimePoint start{};
  const ServedClient session(id, {}, "127.0.0.1:4711", {}, start);
  table.apply(id, wait(keys), start);
  const auto given_up = table.apply(id, cancel_wait(), start + seconds(30)).given_up;
  REQUIRE(given_up);
  return describe_given_up(table, session, *given_up, "gave up waiting", start + seconds(30));
}

}  // namespace

TEST_CASE("a client that has not sent its rank is named by its address") {
  StoreTable table;
  CHECK(sentence(table, kAnna, {"/x"}) == "the client 127.0.0.1:4711 gave up waiting for key '/x' after 30.0 s");
  CHECK_THAT(sentence(table, kAnna, {"/x", "/y", "/z"}), Catch::Contains("key '/x' and 2 others after"));
}

TEST_CASE("a cancelled wait lists the ranks that have arrived and those that have not") {
  StoreTable table;
  table.apply(kAnna, hello(0, 5, "node0:1"));
  table.apply(kBert, hello(1, 5, "node0:2"));
  table.apply(kCarl, hello(2, 5, "node1:3"));
  table.apply(kBert, wait({"/x"}));
  CHECK(sentence(table, kAnna, {"/x"}) ==
        "rank 0 (node0:1) gave up waiting for key '/x' after 30.0 s; ranks 0, 1 wait or waited for it; rank 2 is "
        "connected but does not; ranks 3, 4 are not connected");
}

TEST_CASE("a report lists waiting clients first, beginning with the longest wait") {
  StoreTable table;
  const TimePoint start{};
  const ServedClient sessions[] = {
      {kAnna, {}, "a", {}, start}, {kBert, {}, "b", {}, start}, {kCarl, {}, "c", {}, start}};
  const std::vector<const ServedClient*> all = {&sessions[0], &sessions[1], &sessions[2]};
  table.apply(kCarl, wait({"/k"}), start + seconds(1));
  table.apply(kBert, wait({"/k"}), start + seconds(2));
  const auto report = build_report(table, all, start + seconds(3));
  REQUIRE(report.clients.size() == 3);
  CHECK(report.clients[0].peer == "c");
  CHECK(report.clients[0].waiting_ms == 2000);
  CHECK(report.clients[1].peer == "b");
  CHECK(report.clients[2].peer == "a");
  CHECK(report.clients[2].connected_ms == 3000);
}

TEST_CASE("long waits are listed by key with all ranks, beginning with the longest") {
  StoreTable table;
  const TimePoint start{};
  const ServedClient sessions[] = {
      {kAnna, {}, "a", {}, start}, {kBert, {}, "b", {}, start}, {kCarl, {}, "c", {}, start}};
  const std::vector<const ServedClient*> all = {&sessions[0], &sessions[1], &sessions[2]};
  table.apply(kAnna, hello(0, 4, "node0:1"));
  table.apply(kBert, hello(1, 4, "node0:2"));
  table.apply(kCarl, wait({"/new"}), start + seconds(9));
  CHECK(build_long_waits(table, all, start + seconds(8)).empty());
  table.apply(kAnna, wait({"/k"}), start + seconds(2));
  table.apply(kBert, wait({"/k", "/l"}), start + seconds(1));
  const auto waits = build_long_waits(table, all, start + seconds(8));
  REQUIRE(waits.size() == 1);
  CHECK(waits.front().key == "/k");
  CHECK(waits.front().clients == 2);
  CHECK(waits.front().since == start + seconds(1));
  CHECK(waits.front().who.waiting == "0, 1");
  CHECK(waits.front().who.absent == "2, 3");
  CHECK(build_long_waits(table, all, start + seconds(9)).size() == 2);
}
