// What `ddplaunch store --inspect` prints. Pure.
#pragma once

#include <string>
#include <string_view>

#include "wire/store_report.h"

namespace ddp::launcher {

struct Inspection {
  std::string where;      // the store's "HOST:PORT"
  std::string inspector;  // our own end of the connection: one of the report's clients
  wire::StoreReport report;
  std::string absent_ranks;  // "2, 5-7"
};

// For people: who waits for what, then the other clients, then the keys. Long lists are cut, with a line that says so.
std::string inspection_text(const Inspection& inspection);

// One JSON object with all that the server has sent: docs/reference/cli.md.
std::string inspection_json(const Inspection& inspection);

// Bytes that somebody else has chosen, fit for a terminal: what is not printable ASCII, and backslashes, as "\x1b"; of
// a long text the first bytes and its length.
std::string printable(std::string_view bytes);

}  // namespace ddp::launcher
