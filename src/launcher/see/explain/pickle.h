// Reads plain data from a pickle of Python, protocols 0 to 5, without running anything: a pickle that wants to import
// or to call something is refused. PyTorch's flight recorder writes protocol 2.
#pragma once

#include <string_view>

#include "base/result.h"
#include "launcher/see/explain/plain_value.h"

namespace ddp::launcher {

inline constexpr std::size_t kMostPlainNodes = 2'000'000;  // values of a document
inline constexpr std::size_t kDeepestPlainValue = 64;      // marks of a pickle that are open at once

// Returns the value of the first pickle in `bytes`. Fails with the reason and its place if it is none, or has more than
// kMostPlainNodes values.
base::Result<PlainData> read_pickle(std::string_view bytes);

}  // namespace ddp::launcher
