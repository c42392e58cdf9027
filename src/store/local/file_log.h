// This file encodes the bytes of a store file: a head and a log of changes. docs/development/protocol.md, section 2,
// describes the format. There is no I/O here.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "store/local/local_table.h"

namespace ddp::store {

inline constexpr std::string_view kFileLogHead = "ddplaunch store1";

// The log also records users that joined and left.
enum class UserChange : std::uint8_t { joined = 6, left = 7 };

using LogRecord = std::variant<TableChange, UserChange>;

std::string encode(const LogRecord& record);

struct LogEntry {
  LogRecord record;
  std::size_t bytes;
};
// The log ends here: after the last record, or at a partial record whose writer was killed.
struct LogEnd {};
// The bytes are no valid record.
struct LogCorrupt {};

// Decodes the first record of `bytes`.
std::variant<LogEntry, LogEnd, LogCorrupt> next_record(std::string_view bytes);

}  // namespace ddp::store
