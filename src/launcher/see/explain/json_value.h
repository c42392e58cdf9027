// Reads plain data from JSON.
#pragma once

#include <string_view>

#include "base/result.h"
#include "launcher/see/explain/plain_value.h"

namespace ddp::launcher {

// Returns the document's value. Fails with the reason and its place if it is none, or has more than kMostPlainNodes
// values.
base::Result<PlainData> read_json(std::string_view bytes);

}  // namespace ddp::launcher
