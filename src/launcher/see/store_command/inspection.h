// Builds what `ddplaunch store --inspect` prints. The functions are pure.
#pragma once

#include <string>
#include <string_view>

#include "wire/store_report.h"

namespace ddp::launcher {

struct Inspection {
  std::string where;      // the store's "HOST:PORT"
  std::string inspector;  // this process's end of the connection; one of the report's clients
  wire::StoreReport report;
  std::string absent_ranks;  // ranks such as "2, 5-7"
};

// Returns a text for people: which clients wait for what, then the other clients, then the keys. Long lists are cut,
// with a line that says so.
std::string inspection_text(const Inspection& inspection);

// Returns one JSON object with everything that the server has sent: docs/reference/command-line.md.
std::string inspection_json(const Inspection& inspection);

// Makes bytes of unknown origin safe for a terminal. Backslashes and all bytes that are not printable ASCII are shown
// as in "\x1b". A long text is cut to its first bytes, followed by its length.
std::string printable(std::string_view bytes);

}  // namespace ddp::launcher
