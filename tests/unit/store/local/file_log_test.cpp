#include "store/local/file_log.h"

#include "support/bytes.h"
#include "support/catch.h"

using namespace ddp::store;
using ddp::test::from_hex;
using ddp::test::to_hex;
using Kind = TableChange::Kind;

namespace {

const std::vector<LogRecord> kRecords = {TableChange{Kind::set, "k", "value"},
                                         TableChange{Kind::append, "", ""},
                                         TableChange{Kind::erase, std::string("\0\n", 2), ""},
                                         TableChange{Kind::push, "q", std::string(1000, 'v')},
                                         TableChange{Kind::pop, "q", ""},
                                         UserChange::joined,
                                         UserChange::left};

}  // namespace

TEST_CASE("records of a store file are unchanged after writing and reading") {
  std::string log;
  for (const LogRecord& record : kRecords) log += encode(record);
  std::string_view rest = log;
  for (const LogRecord& record : kRecords) {
    const auto next = next_record(rest);
    REQUIRE(std::holds_alternative<LogEntry>(next));
    CHECK(std::get<LogEntry>(next).record == record);
    rest.remove_prefix(std::get<LogEntry>(next).bytes);
  }
  CHECK(std::holds_alternative<LogEnd>(next_record(rest)));
}

TEST_CASE("a truncated record ends the log") {
  for (const LogRecord& record : kRecords) {
    const std::string bytes = encode(record);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      REQUIRE(std::holds_alternative<LogEnd>(next_record(std::string_view(bytes).substr(0, length))));
    }
  }
}

TEST_CASE("a changed bit in a record is detected") {
  const std::string bytes = encode(kRecords[0]);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    // If the length grew, the bytes of the record have not come yet.
    REQUIRE_FALSE(std::holds_alternative<LogEntry>(next_record(changed)));
  }
}

TEST_CASE("a record with an impossible length is corrupt whatever follows") {
  CHECK(std::holds_alternative<LogCorrupt>(next_record("garbage")));
  CHECK(std::holds_alternative<LogCorrupt>(next_record(std::string(12, '\0'))));
}

TEST_CASE("a record has the documented bytes") {
  CHECK(to_hex(encode(TableChange{Kind::set, "k", "hi"})) ==
        "0C 00 00 00 59 E1 12 B4 30 21 6B AD 01 01 00 00 00 00 00 00 00 6B 68 69");
}
