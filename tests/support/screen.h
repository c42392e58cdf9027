// Screen interprets the few sequences that ddplaunch writes to a terminal, to test what a user sees.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "launcher/see/view/styled_line.h"
#include "support/catch.h"

namespace ddp::test {

class Screen {
 public:
  Screen(int columns, int rows) : columns_(columns), lines_(static_cast<std::size_t>(rows)) {}

  // Fails for a sequence that it does not know, and for text outside of the screen.
  void show(std::string_view bytes) {
    while (!bytes.empty()) {
      if (bytes[0] == '\x1b') {
        REQUIRE(bytes.size() > 2);
        REQUIRE(bytes[1] == '[');
        const std::size_t end = bytes.find_first_not_of("0123456789;?", 2);
        REQUIRE(end != std::string_view::npos);
        obey(std::string(bytes.substr(2, end - 2)), bytes[end]);
        bytes.remove_prefix(end + 1);
        continue;
      }
      const std::size_t size = base::printable_length(bytes);
      REQUIRE(size > 0);
      put(bytes.substr(0, size));
      bytes.remove_prefix(size);
    }
  }

  // Returns the lines without spaces at their ends.
  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    for (const auto& line : lines_) {
      std::string text;
      for (const std::string& cell : line) text += cell;
      result.push_back(text.substr(0, text.find_last_not_of(' ') + 1));
    }
    return result;
  }
  bool is_updating() const { return is_updating_; }

 private:
  void obey(const std::string& parameters, char command) {
    if (command == 'm') return;  // colours
    if (command == 'J' && parameters == "2") {
      for (auto& line : lines_) line.clear();
    } else if (command == 'K' && parameters.empty()) {
      auto& line = lines_.at(row_);
      if (line.size() > column_) line.resize(column_);
    } else if (command == 'H') {
      row_ = std::stoul(parameters) - 1;
      column_ = std::stoul(parameters.substr(parameters.find(';') + 1)) - 1;
      REQUIRE(row_ < lines_.size());
    } else if (parameters == "?2026") {
      is_updating_ = command == 'h';
    } else {
      FAIL("unknown sequence " << parameters << command);
    }
  }

  void put(std::string_view character) {
    auto& line = lines_.at(row_);
    const auto width = static_cast<std::size_t>(launcher::columns_of(character));
    REQUIRE(column_ + width <= static_cast<std::size_t>(columns_));
    if (line.size() < column_ + width) line.resize(column_ + width, " ");
    line[column_] = character;
    if (width == 2) line[column_ + 1] = "";
    column_ += width;
  }

  int columns_;
  std::vector<std::vector<std::string>> lines_;  // a character per column; empty for the second half of a wide one
  std::size_t row_ = 0;
  std::size_t column_ = 0;
  bool is_updating_ = false;
};

}  // namespace ddp::test
