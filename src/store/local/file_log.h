// The bytes of a store file: a head and a log of changes. docs/development/protocol.md, section 2, is the description.
// No I/O here.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "store/local/local_table.h"

namespace ddp::store {

inline constexpr std::string_view kFileLogHead = "ddplaunch store1";

// What is in the log besides changes of the table: users that came and left.
enum class UserChange : std::uint8_t { joined = 6, left = 7 };

using LogRecord = std::variant<TableChange, UserChange>;

std::string encode(const LogRecord& record);

struct LogEntry {
  LogRecord record;
  std::size_t bytes;
};
// The log ends here: with the last record, or with a piece of one whose writer was killed.
struct LogEnd {};
// There is what nobody wrote so.
struct LogCorrupt {};

// The first record of `bytes`.
std::variant<LogEntry, LogEnd, LogCorrupt> next_record(std::string_view bytes);

}  // namespace ddp::store
