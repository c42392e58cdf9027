// These functions measure and cut text by the columns that a terminal uses for it. Texts are UTF-8, and may contain
// escape sequences (ECMA-48). They are pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

// Returns the columns of the printable character (base::printable_length) that consists of these bytes: 0 for a
// combining character, and 2 for most characters of East Asian scripts and emoji.
std::size_t columns_of_character(std::string_view bytes);

// Returns the bytes of the escape sequence at the front of `text`, up to its end or the end of the text. Returns 0 if
// there is none.
std::size_t sequence_length(std::string_view text);

// Returns the column in which the cursor is after `text` was shown from column `from` on. Returns std::nullopt if the
// text moves the cursor in another way than by showing characters and tabs.
std::optional<std::size_t> column_after(std::string_view text, std::size_t from);

// Returns as much of `text` as fits into `columns`. Colours after the cut stay, because they may end earlier ones.
// Other escape sequences and control characters are left out, so that the text stays on its line.
std::string fit_to_columns(std::string_view text, std::size_t columns);

// Returns whether the text contains an escape sequence that may move the cursor to another line, or change what the
// terminal shows elsewhere. Colours, links, titles and the removal of a line's rest do not.
bool moves_cursor(std::string_view text);

}  // namespace ddp::launcher
