// These functions measure and cut text by the columns that a terminal uses for it. Texts are UTF-8. They are pure.
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

// Returns `text` on one line, without anything that acts on a terminal (base::printable). A tab becomes a space.
std::string clean_text(std::string_view text);

// Returns how many columns a terminal uses for `text`, which must be clean. Combining characters take no column, and
// characters of East Asian scripts and most emoji take two.
int columns_of(std::string_view text);

// Returns as many whole characters of `text` as fit into `columns`. If any are left out, the text ends with '~'.
std::string cut_to(std::string_view text, int columns);

// Returns `text`, cut to `columns` and filled with spaces on the right or on the left.
std::string left_aligned(std::string_view text, int columns);
std::string right_aligned(std::string_view text, int columns);

}  // namespace ddp::launcher
