// Tests the requests of later PyTorch versions, and ddplaunch's own requests.
#include "support/bytes.h"
#include "support/catch.h"
#include "support/store_conversation.h"

using namespace ddp::test;

TEST_CASE("a queue returns its values in the order of arrival") {
  Conversation talk;
  talk.says(kAnna, queue_len("q")).hears(kAnna, number_reply(0));
  talk.says(kAnna, queue_pop("q")).hears(kAnna, number_reply(0)).nobody_hears_more();
  talk.says(kAnna, queue_push("q", "a")).nobody_hears_more();
  talk.says(kBert, queue_push("q", "")).nobody_hears_more();
  talk.says(kAnna, queue_len("q")).hears(kAnna, number_reply(2));
  talk.says(kBert, queue_pop("q")).hears(kBert, number_reply(2) + text_reply("a")).nobody_hears_more();
  talk.says(kBert, queue_pop("q")).hears(kBert, number_reply(1) + text_reply("")).nobody_hears_more();
  CHECK(talk.table.bytes() == 0);
}

TEST_CASE("a queue is not a value and counts as set while it is not empty") {
  Conversation talk;
  talk.says(kAnna, queue_push("q", "a"));
  talk.says(kAnna, key_count()).hears(kAnna, number_reply(0));
  talk.says(kAnna, get("q")).hears(kAnna, text_reply(""));
  talk.says(kAnna, check({"q"})).hears(kAnna, byte_reply(0));
  talk.says(kAnna, wait({"q"})).hears(kAnna, kStop);
  talk.says(kAnna, queue_pop("q"));
  talk.says(kAnna, check({"q"})).hears(kAnna, byte_reply(1));
}

TEST_CASE("a value in a queue wakes only the first waiting client") {
  Conversation talk;
  for (const auto who : {kCarl, kAnna, kBert}) talk.says(who, wait({"q"})).nobody_hears_more();
  talk.says(kDora, queue_push("q", "a")).hears(kCarl, kStop).nobody_hears_more();
  talk.says(kDora, queue_push("q", "b")).hears(kAnna, kStop).nobody_hears_more();
  talk.table.forget(kBert);
  talk.says(kDora, queue_push("q", "c")).nobody_hears_more();
  CHECK(talk.table.waiting_connections() == 0);
}

TEST_CASE("a client that waits for a queue and a key is woken when both are set") {
  Conversation talk;
  talk.says(kAnna, wait({"q", "k"})).nobody_hears_more();
  talk.says(kBert, queue_push("q", "a")).nobody_hears_more();
  talk.says(kBert, set("k", "")).hears(kAnna, kStop);
}

TEST_CASE("keys are listed, and queues are not") {
  Conversation talk;
  talk.says(kAnna, list_keys()).hears(kAnna, number_reply(0));
  talk.says(kAnna, set("/k", "v"));
  talk.says(kAnna, queue_push("q", "v"));
  talk.says(kAnna, list_keys()).hears(kAnna, number_reply(1) + text_reply("/k"));
}

TEST_CASE("a barrier releases all clients when the last one arrives") {
  Conversation talk;
  talk.says(kAnna, barrier("b", 3)).nobody_hears_more();
  talk.says(kBert, barrier("b", 3)).nobody_hears_more();
  talk.value_is("b", "2");
  talk.says(kCarl, barrier("b", 3)).hears(kCarl, kStop).then_hears(kAnna, kStop).then_hears(kBert, kStop);
  talk.nobody_hears_more();
  talk.says(kCarl, barrier("b", 3)).hears(kCarl, kStop).nobody_hears_more();
}

TEST_CASE("a barrier ends a wait for its key and can be cancelled like one") {
  Conversation talk;
  talk.says(kDora, wait({"b"}));
  talk.says(kAnna, barrier("b", 2)).hears(kDora, kStop).nobody_hears_more();
  talk.says(kAnna, cancel_wait()).hears(kAnna, byte_reply(1)).nobody_hears_more();
  talk.says(kBert, barrier("b", 2)).hears(kBert, kStop).nobody_hears_more();
}

TEST_CASE("a barrier on a value that is not a number is rejected") {
  Conversation talk;
  talk.says(kAnna, set("b", "x"));
  talk.says(kAnna, barrier("b", 2)).nobody_hears_more().is_refused_for("BARRIER on a key whose value is not a number");
}

TEST_CASE("a client that watches a key is notified of its changes") {
  Conversation talk;
  const auto change = [](std::uint8_t kind, const std::string& before, const std::string& after) {
    return byte_reply(kind) + text_reply("k") + text_reply(before) + text_reply(after);
  };
  talk.says(kAnna, watch_key("k")).hears(kAnna, byte_reply(3)).nobody_hears_more();
  talk.says(kAnna, watch_key("k")).hears(kAnna, byte_reply(3)).nobody_hears_more();
  talk.says(kBert, set("k", "1")).hears(kAnna, change(1, "", "1")).nobody_hears_more();
  talk.says(kBert, add("k", 1)).hears(kBert, number_reply(2)).then_hears(kAnna, change(0, "1", "2"));
  talk.says(kBert, delete_key("k")).hears(kBert, number_reply(1)).then_hears(kAnna, change(2, "2", ""));
  talk.says(kBert, set("j", "1")).nobody_hears_more();
  talk.table.forget(kAnna);
  talk.says(kBert, set("k", "1")).nobody_hears_more();
}

TEST_CASE("watches are counted against the memory limit and released") {
  Conversation talk(full_at(5 * kEach));
  talk.says(kAnna, watch_key("k"));
  talk.says(kAnna, watch_key("j"));
  talk.says(kAnna, watch_key("i")).nobody_hears_more().is_refused_for("full");
  talk.table.forget(kAnna);
  CHECK(talk.table.bytes() == 0);
}

TEST_CASE("waits and their numbers of keys are limited") {
  StoreLimits limits;
  limits.waiting_bytes = 1000;
  Conversation talk(limits);
  talk.says(kAnna, wait({"a", "b"})).nobody_hears_more();
  talk.says(kBert, wait({"a", "b", "c"})).nobody_hears_more().is_refused_for("waiting-bytes 1000");
  talk.table.forget(kAnna);
  talk.says(kBert, wait({"a", "b", "c"})).nobody_hears_more();
  talk.table.forget(kBert);
  CHECK(talk.table.bytes() == 0);
}

TEST_CASE("the number of keys is limited, including queues") {
  StoreLimits limits;
  limits.keys = 2;
  Conversation talk(limits);
  talk.says(kAnna, set("a", ""));
  talk.says(kAnna, queue_push("q", ""));
  talk.says(kAnna, queue_push("q", "")).nobody_hears_more();
  talk.says(kAnna, set("a", "1")).nobody_hears_more();
  talk.says(kAnna, set("b", "")).is_refused_for("too many keys (keys 2)");
  talk.says(kAnna, queue_push("r", "")).is_refused_for("too many keys");
}

TEST_CASE("ddplaunch's extensions are announced by a key that is never set") {
  Conversation talk;
  const std::string key(ddp::wire::kStoreExtensionsKey);
  talk.says(kAnna, check({key})).hears(kAnna, byte_reply(0));
  talk.says(kAnna, key_count()).hears(kAnna, number_reply(0));
  talk.says(kAnna, check({key, "k"})).hears(kAnna, byte_reply(1));
}

TEST_CASE("the store answers HELLO with the ID of its table, and refuses ranks out of range and long names") {
  Conversation talk;
  talk.says(kAnna, hello(0, 4, "node0:1")).hears(kAnna, number_reply(1));
  talk.says(kAnna, hello(4, 4, "node0:1")).is_refused_for("rank 4 of 4");
  talk.says(kAnna, hello(-1, 4, "node0:1")).is_refused_for("rank -1 of 4");
  talk.says(kAnna, hello(0, 4, std::string(257, 'x'))).is_refused_for("name");
}

TEST_CASE("EXPLAIN lists the ranks that wait, do not wait, or are not connected") {
  Conversation talk;
  const auto explains = [&](const std::string& waiting, const std::string& elsewhere, const std::string& absent) {
    talk.says(kDora, explain({"k", "j"}))
        .hears(kDora, text_reply(waiting) + text_reply(elsewhere) + text_reply(absent));
  };
  explains("", "", "");
  talk.says(kAnna, hello(0, 6, "a"));
  talk.says(kBert, hello(1, 6, "b"));
  talk.says(kCarl, hello(4, 6, "c"));
  explains("", "0, 1, 4", "2, 3, 5");
  talk.says(kAnna, wait({"k"}));
  talk.says(kBert, barrier("j", 6));
  explains("0, 1", "4", "2, 3, 5");
  talk.says(kAnna, cancel_wait());
  explains("0, 1", "4", "2, 3, 5");  // rank 0 gave up, and has not waited for anything else since
  talk.says(kAnna, wait({"other"}));
  explains("1", "0, 4", "2, 3, 5");
}

TEST_CASE("a cancelled wait is returned with its keys and its start") {
  using std::chrono::seconds;
  ddp::store::StoreTable table;
  const ddp::store::TimePoint start{};
  CHECK_FALSE(table.apply(kAnna, wait({"b", "a"}), start).given_up);
  const auto given_up = table.apply(kAnna, cancel_wait(), start + seconds(9)).given_up;
  REQUIRE(given_up);
  CHECK(given_up->keys == std::vector<std::string>{"a", "b"});
  CHECK(given_up->since == start);
  CHECK_FALSE(table.apply(kAnna, cancel_wait(), start).given_up);
}
