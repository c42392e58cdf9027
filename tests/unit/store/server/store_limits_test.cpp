#include "store/server/store_limits.h"

#include <set>
#include <string>

#include "support/catch.h"

using ddp::store::changed_store_limits;
using ddp::store::set_store_limits;
using ddp::store::store_limit_names;
using ddp::store::StoreLimits;

TEST_CASE("each limit of the store has one name and a default within its bounds") {
  std::set<std::string> names;
  for (const auto& limit : store_limit_names()) {
    INFO(limit.name);
    CHECK(names.emplace(limit.name).second);
    CHECK_FALSE(limit.what.empty());
    const std::size_t value = StoreLimits().*limit.member;
    CHECK(value >= 1);
    CHECK(value <= limit.maximum);

    StoreLimits limits;
    CHECK_FALSE(set_store_limits(limits, std::string(limit.name) + "=17"));
    CHECK(limits.*limit.member == 17);
    limits.*limit.member = value;
    CHECK(limits == StoreLimits());  // no other limit has changed

    CHECK_FALSE(set_store_limits(limits, std::string(limit.name) + "=" + std::to_string(limit.maximum)));
    CHECK(limits.*limit.member == limit.maximum);
    CHECK(set_store_limits(limits, std::string(limit.name) + "=" + std::to_string(limit.maximum + 1)));
    CHECK(set_store_limits(limits, std::string(limit.name) + "=0"));
    CHECK(limits.*limit.member == limit.maximum);
  }
  CHECK(names.size() * sizeof(std::size_t) == sizeof(StoreLimits));  // every member has a name
}

TEST_CASE("store limits are parsed with units, several at once, and the last one wins") {
  StoreLimits limits;
  CHECK_FALSE(set_store_limits(limits, "table-bytes=64MiB,connections=100,table-bytes=2GiB"));
  CHECK(limits.table_bytes == std::size_t{2} << 30);
  CHECK(limits.connections == 100);
}

TEST_CASE("changed store limits are printed in the form in which they are parsed") {
  CHECK(changed_store_limits({}).empty());
  StoreLimits limits;
  limits.key_bytes = 100;
  limits.keys = 1024;
  limits.buffer_bytes = std::size_t{3} << 20;
  CHECK(changed_store_limits(limits) == "key-bytes=100,keys=1024,buffer-bytes=3MiB");
  StoreLimits again;
  CHECK_FALSE(set_store_limits(again, changed_store_limits(limits)));
  CHECK(again == limits);
}

TEST_CASE("a mistake in a store limit is reported with the valid form") {
  const auto mistake = [](const char* text) {
    StoreLimits limits;
    return set_store_limits(limits, text).value_or("");
  };
  CHECK(mistake("keys") == " is not of the form NAME=VALUE. Example: table-bytes=64MiB.");
  CHECK(mistake("") == mistake("keys"));
  CHECK(mistake("keys=1,") == mistake("keys"));
  CHECK(mistake("colour=1").starts_with(": the store has no limit colour. Use one of key-bytes, value-bytes, "));
  CHECK(mistake("keys=1KiB") == ": keys is not a number from 1 to 1073741824.");
  CHECK(mistake("table-bytes=lots") == ": table-bytes is not a size from 1 to 1TiB. Example: table-bytes=64KiB.");
}
