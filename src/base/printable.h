// These functions make text from outside (workers, other nodes, files, the environment) safe for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::base {

// Returns the bytes of the printable character at the front of `text`, 1 to 4. Returns 0 at the end, at bytes that are
// not UTF-8, and at characters that act on a terminal instead of being shown. These are control characters (C0, C1,
// DEL) except the tab, line and paragraph separators, and marks that reverse the direction of text.
std::size_t printable_length(std::string_view text);

// Returns `text` on one line. Each byte that is not part of a printable character is shown as "\x1b". A result of more
// than `most` bytes is cut between characters and ends with "...".
std::string printable(std::string_view text, std::size_t most = std::string_view::npos);

// Returns the byte in hexadecimal, such as "\x1b".
std::string escaped(char byte);

}  // namespace ddp::base
