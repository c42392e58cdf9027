// StrangerLines: how much is said of those who can connect and do not belong to the job. They choose what there is to
// say, and may connect again and again.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/limits.h"

namespace ddp::launcher {

class StrangerLines {
 public:
  // `line` if it is to be said, the last one of an address with a word that it is; nothing if enough was said.
  std::optional<std::string> allow(const std::string& address, const std::string& line) {
    if (!lines_.contains(address) && lines_.size() >= limits::kShownStrangers) return std::nullopt;
    const int number = ++lines_[address];
    if (number > limits::kLinesPerStranger) return std::nullopt;
    return line + (number == limits::kLinesPerStranger ? " (no more is said of that address)" : "");
  }

 private:
  std::map<std::string, int> lines_;  // by address
};

}  // namespace ddp::launcher
