// Finds the known causes in the output of programs. The functions are pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launcher/start/causes/cause.h"
#include "launcher/start/causes/word_finder.h"

namespace ddp::launcher {

// Rows with a heading on the page of known errors.
struct CauseGroup {
  std::span<const Cause> (*causes)();
  const char* anchor;
  const char* title;
  const char* title_zh;
};

std::span<const CauseGroup> cause_groups();

// Returns the rows of all groups. Where several fit, the first one of them is the more specific one.
std::span<const Cause* const> all_causes();

// Returns null if there is none.
const Cause* find_cause_by_id(std::string_view id);

// Returns whether the line contains the parts of the pattern between "…", in this order. Words that the line quotes, as
// in text='…', or that are part of a sentence, do not count.
bool matches(std::string_view pattern, std::string_view line);

// Returns texts, one of which is in each line that shows a cause.
std::span<const std::string_view> words_of_causes();

// Returns the longest part of a pattern between "…".
std::string_view longest_part(std::string_view pattern);

// Returns the cause that the line shows, or null. The line has no tag and no colours.
const Cause* find_cause(std::string_view line);

// Returns the cause that the lines show, or null. A failure comes before a lost peer and a timeout.
const Cause* find_cause_in(std::span<const std::string> lines);

// Returns the one of two causes that says more. Both may be null.
const Cause* better_cause(const Cause* one, const Cause* other);

}  // namespace ddp::launcher
