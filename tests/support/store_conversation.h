// Provides conversations with a store table.
#pragma once

#include <string>

#include "store/server/store_table.h"
#include "support/bytes.h"
#include "support/catch.h"
#include "support/store_requests.h"

namespace ddp::test {

using store::ConnectionId;
using store::StoreLimits;
using store::StoreOutcome;
using store::StoreTable;

inline constexpr ConnectionId kAnna = 1;
inline constexpr ConnectionId kBert = 2;
inline constexpr ConnectionId kCarl = 3;
inline constexpr ConnectionId kDora = 4;

// The table counts this for each key, besides the bytes of the key and of its value.
inline constexpr std::size_t kEach = limits::kStoreEntryBytes;

inline StoreLimits full_at(std::size_t bytes) {
  StoreLimits result;
  result.table_bytes = bytes;
  return result;
}

// Holds a table, and sends it requests and checks the replies.
class Conversation {
 public:
  explicit Conversation(const StoreLimits& limits = {}) : table(limits) {}

  Conversation& says(ConnectionId from, const StoreRequest& request) {
    outcome_ = table.apply(from, request);
    next_reply_ = 0;
    return *this;
  }
  Conversation& hears(ConnectionId to, const std::string& bytes) {
    REQUIRE_FALSE(outcome_.violation);
    return then_hears(to, bytes);
  }
  Conversation& nobody_hears_more() {
    CHECK(outcome_.replies.size() == next_reply_);
    return *this;
  }
  void is_refused_for(const std::string& reason) {
    REQUIRE(outcome_.violation);
    CHECK_THAT(outcome_.violation->reason, Catch::Contains(reason));
  }
  Conversation& then_hears(ConnectionId to, const std::string& bytes) {
    REQUIRE(next_reply_ < outcome_.replies.size());
    const auto& reply = outcome_.replies[next_reply_++];
    CHECK(reply.to == to);
    CHECK(to_hex(reply.bytes) == to_hex(bytes));
    return *this;
  }
  void value_is(const std::string& key, const std::string& value) {
    says(99, get(key)).hears(99, text_reply(value)).nobody_hears_more();
  }

  StoreTable table;

 private:
  StoreOutcome outcome_;
  std::size_t next_reply_ = 0;
};

inline const std::string kStop = byte_reply(0);
inline const std::string kCanceled = byte_reply(1);

}  // namespace ddp::test
