#include "store/server/store_table.h"

#include "support/bytes.h"
#include "support/catch.h"
#include "support/store_conversation.h"

using namespace ddp::test;

TEST_CASE("ADD on a value that is not a number is rejected and changes nothing") {
  for (const char* value : {"", "x", "x1", " ", "9223372036854775808"}) {
    INFO("value '" << value << "'");
    Conversation talk;
    talk.says(kAnna, set("n", value));
    talk.says(kAnna, add("n", 1)).nobody_hears_more().is_refused_for("not a number");
    talk.value_is("n", value);
  }
}

TEST_CASE("ADD parses a number like PyTorch, whatever follows it") {
  for (const char* value : {"1x", " 1", "1 2", "+1"}) {
    Conversation talk;
    talk.says(kAnna, set("n", value));
    talk.says(kAnna, add("n", 1)).hears(kAnna, number_reply(2));
  }
}

TEST_CASE("ADD beyond 64 bits is rejected and changes nothing") {
  Conversation talk;
  talk.says(kAnna, add("n", INT64_MAX)).hears(kAnna, number_reply(INT64_MAX));
  talk.says(kAnna, add("n", 1)).nobody_hears_more().is_refused_for("64 bits");
  talk.value_is("n", "9223372036854775807");
  talk.says(kAnna, add("m", INT64_MIN)).hears(kAnna, number_reply(INT64_MIN));
  talk.says(kAnna, add("m", -1)).nobody_hears_more().is_refused_for("64 bits");
}

TEST_CASE("a full table rejects what does not fit and keeps its content") {
  Conversation talk(full_at(kEach + 10));
  talk.says(kAnna, set("abc", "1234567")).nobody_hears_more();
  CHECK(talk.table.bytes() == kEach + 10);
  talk.says(kAnna, set("k", "")).is_refused_for("the store is full (table-bytes " + std::to_string(kEach + 10) + ")");
  talk.says(kAnna, append("abc", "8")).is_refused_for("full");
  talk.value_is("abc", "1234567");
  CHECK(talk.table.key_count() == 1);
  CHECK(talk.table.bytes() == kEach + 10);
}

TEST_CASE("a request that does not fit is never answered as carried out") {
  Conversation talk(full_at(kEach + 4));
  talk.says(kAnna, add("long key", 1)).nobody_hears_more().is_refused_for("full");
  talk.says(kAnna, compare_set("k", "", "too long")).nobody_hears_more().is_refused_for("full");
  CHECK(talk.table.key_count() == 0);
}

TEST_CASE("replaced and deleted values release their bytes") {
  Conversation talk(full_at(2 * kEach + 10));
  talk.says(kAnna, set("k", "123456789"));
  talk.says(kAnna, set("k", "1"));
  CHECK(talk.table.bytes() == kEach + 2);
  talk.says(kAnna, set("j", "1234567")).nobody_hears_more();
  CHECK(talk.table.bytes() == 2 * kEach + 10);
  talk.says(kAnna, delete_key("j")).hears(kAnna, number_reply(1));
  CHECK(talk.table.bytes() == kEach + 2);
  talk.says(kAnna, delete_key("j")).hears(kAnna, number_reply(0));
  CHECK(talk.table.bytes() == kEach + 2);
}

TEST_CASE("a reply larger than the output limit is rejected before it is built") {
  Conversation talk;
  talk.says(kAnna, set("k", std::string(ddp::limits::kStoreValueBytes, 'v')));
  talk.says(kAnna, multi_get(std::vector<std::string>(1000, "k"))).nobody_hears_more().is_refused_for("reply");
}

TEST_CASE("a wait is answered when its last key is set") {
  Conversation talk;
  talk.says(kAnna, wait({"a", "b", "c"})).nobody_hears_more();
  talk.says(kBert, set("b", "")).nobody_hears_more();
  talk.says(kBert, add("a", 1)).hears(kBert, number_reply(1)).nobody_hears_more();
  talk.says(kBert, compare_set("c", "", "x")).hears(kBert, text_reply("x")).hears(kAnna, kStop).nobody_hears_more();
  CHECK(talk.table.waiting_connections() == 0);
}

TEST_CASE("a wait for existing keys is answered at once") {
  Conversation talk;
  talk.says(kAnna, wait({})).hears(kAnna, kStop);
  talk.says(kAnna, set("a", "1"));
  talk.says(kAnna, wait({"a", "a"})).hears(kAnna, kStop).nobody_hears_more();
  CHECK(talk.table.waiting_connections() == 0);
}

TEST_CASE("a wait that names a key twice is answered once") {
  Conversation talk;
  talk.says(kAnna, wait({"a", "a"})).nobody_hears_more();
  talk.says(kBert, set("a", "")).hears(kAnna, kStop).nobody_hears_more();
}

TEST_CASE("each kind of write wakes the waiting clients") {
  for (const StoreRequest& write : {set("k", "v"), append("k", "v"), multi_set({"j", "k"}, {"1", "2"}), set("k", "")}) {
    INFO(to_string(write.op));
    Conversation talk;
    talk.says(kAnna, wait({"k"})).nobody_hears_more();
    talk.says(kCarl, wait({"k"})).nobody_hears_more();
    talk.says(kBert, write);
    CHECK(talk.table.waiting_connections() == 0);
  }
}

TEST_CASE("one MULTI_SET answers a wait for all of its keys once") {
  Conversation talk;
  talk.says(kAnna, wait({"a", "b"}));
  talk.says(kBert, multi_set({"a", "b"}, {"1", "2"})).hears(kAnna, kStop).nobody_hears_more();
}

TEST_CASE("a deleted key must be waited for again") {
  Conversation talk;
  talk.says(kAnna, wait({"a", "b"}));
  talk.says(kBert, set("a", ""));
  talk.says(kBert, delete_key("a")).hears(kBert, number_reply(1)).nobody_hears_more();
  // "a" has been seen. PyTorch's server also counts it as arrived.
  talk.says(kBert, set("b", "")).hears(kAnna, kStop);
  talk.says(kAnna, wait({"a"})).nobody_hears_more();
  talk.says(kBert, set("a", "")).hears(kAnna, kStop);
}

TEST_CASE("CANCEL_WAIT is answered and ends the wait") {
  Conversation talk;
  talk.says(kAnna, wait({"a"}));
  talk.says(kAnna, cancel_wait()).hears(kAnna, kCanceled).nobody_hears_more();
  talk.says(kBert, set("a", "")).nobody_hears_more();
}

TEST_CASE("CANCEL_WAIT is answered even if the key came first or no wait exists") {
  Conversation talk;
  talk.says(kAnna, cancel_wait()).hears(kAnna, kCanceled);
  talk.says(kAnna, wait({"a"}));
  talk.says(kBert, set("a", "")).hears(kAnna, kStop);
  talk.says(kAnna, cancel_wait()).hears(kAnna, kCanceled).nobody_hears_more();
}

TEST_CASE("a new request silently ends the wait of a client that never cancels") {
  for (const StoreRequest& next : {set("other", ""), get("other"), wait({"b"}), check({"a"}), ping(1)}) {
    INFO(to_string(next.op));
    Conversation talk;
    talk.says(kAnna, wait({"a"}));
    talk.says(kAnna, next);
    talk.says(kBert, set("a", "")).nobody_hears_more();
  }
}

TEST_CASE("a client that sets the key it waits for gets no late answer") {
  Conversation talk;
  talk.says(kAnna, wait({"a"}));
  talk.says(kAnna, set("a", "")).nobody_hears_more();
}

TEST_CASE("a disconnected client is not answered, and others still are") {
  Conversation talk;
  talk.says(kAnna, wait({"a"}));
  talk.says(kCarl, wait({"a", "b"}));
  talk.table.forget(kAnna);
  talk.table.forget(kAnna);
  talk.table.forget(77);
  CHECK(talk.table.waiting_connections() == 1);
  talk.says(kBert, multi_set({"a", "b"}, {"", ""})).hears(kCarl, kStop).nobody_hears_more();
}

TEST_CASE("a write that fits only partly still wakes the clients whose key was stored") {
  Conversation talk(full_at(kEach + 4));
  talk.says(kAnna, wait({"a"}));
  talk.says(kBert, multi_set({"a", "b"}, {"1", "1234"})).then_hears(kAnna, kStop).nobody_hears_more();
  talk.is_refused_for("full");
}

TEST_CASE("compare_set follows PyTorch in all cases") {
  Conversation talk;
  // The key is absent and a value is expected. The reply is the expected value, although nothing is stored.
  talk.says(kAnna, compare_set("k", "old", "new")).hears(kAnna, text_reply("old")).nobody_hears_more();
  CHECK(talk.table.key_count() == 0);
  // The key is absent and no value is expected.
  talk.says(kAnna, compare_set("k", "", "v1")).hears(kAnna, text_reply("v1"));
  // The key is present, and its value is different, equal, or empty.
  talk.says(kAnna, compare_set("k", "", "v2")).hears(kAnna, text_reply("v1"));
  talk.says(kAnna, compare_set("k", "x", "v2")).hears(kAnna, text_reply("v1"));
  talk.says(kAnna, compare_set("k", "v1", "")).hears(kAnna, text_reply(""));
  talk.says(kAnna, compare_set("k", "", "v3")).hears(kAnna, text_reply("v3"));
  talk.value_is("k", "v3");
}

TEST_CASE("counters are stored as decimal text") {
  Conversation talk;
  talk.says(kAnna, add("n", 41)).hears(kAnna, number_reply(41));
  talk.says(kAnna, add("n", 1)).hears(kAnna, number_reply(42));
  talk.value_is("n", "42");
  talk.says(kAnna, add("n", 0)).hears(kAnna, number_reply(42));
  talk.says(kAnna, add("n", -50)).hears(kAnna, number_reply(-8));
  talk.says(kAnna, set("n", "100"));
  talk.says(kAnna, add("n", 1)).hears(kAnna, number_reply(101));
}

TEST_CASE("an absent key is read as an empty value") {
  Conversation talk;
  talk.says(kAnna, get("k")).hears(kAnna, text_reply(""));
  talk.says(kAnna, set("b", "2"));
  talk.says(kAnna, multi_get({"a", "b"})).hears(kAnna, text_reply("") + text_reply("2")).nobody_hears_more();
  talk.says(kAnna, multi_get({})).hears(kAnna, "");
}

TEST_CASE("append creates a key and extends it") {
  Conversation talk;
  talk.says(kAnna, append("k", "ab")).nobody_hears_more();
  talk.says(kAnna, append("k", "c")).nobody_hears_more();
  talk.value_is("k", "abc");
  CHECK(talk.table.bytes() == kEach + 4);
}

TEST_CASE("append does not extend a value beyond the value limit") {
  Conversation talk;
  talk.says(kAnna, set("k", std::string(ddp::limits::kStoreValueBytes, 'v')));
  talk.says(kAnna, append("k", "w")).is_refused_for("value");
}

TEST_CASE("check returns whether all keys exist") {
  Conversation talk;
  talk.says(kAnna, check({})).hears(kAnna, byte_reply(0));
  talk.says(kAnna, set("a", ""));
  talk.says(kAnna, check({"a"})).hears(kAnna, byte_reply(0));
  talk.says(kAnna, check({"a", "b"})).hears(kAnna, byte_reply(1));
}

TEST_CASE("ping is echoed, validate has no reply, and keys are counted") {
  Conversation talk;
  talk.says(kAnna, ping(0xFEDCBA98)).hears(kAnna, from_hex("98 BA DC FE")).nobody_hears_more();
  talk.says(kAnna, validate()).nobody_hears_more();
  talk.says(kAnna, key_count()).hears(kAnna, number_reply(0));
  talk.says(kAnna, multi_set({"init/", "/a", "/a"}, {"1", "2", "3"}));
  talk.says(kAnna, key_count()).hears(kAnna, number_reply(2));
  talk.value_is("/a", "3");
}
