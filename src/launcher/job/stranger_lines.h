// StrangerLines limits what is logged about peers that can connect and do not belong to the job. Such peers determine
// the text, and may connect repeatedly.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/limits.h"

namespace ddp::launcher {

class StrangerLines {
 public:
  // Returns `line` if it may be logged, or std::nullopt if enough was logged. The last line about an address says that
  // it is the last one.
  std::optional<std::string> allow(const std::string& address, const std::string& line) {
    if (!lines_.contains(address) && lines_.size() >= limits::kShownStrangers) return std::nullopt;
    const int number = ++lines_[address];
    if (number > limits::kLinesPerStranger) return std::nullopt;
    return line + (number == limits::kLinesPerStranger ? " (further lines about this address are not shown)" : "");
  }

 private:
  std::map<std::string, int> lines_;  // number of lines by address
};

}  // namespace ddp::launcher
