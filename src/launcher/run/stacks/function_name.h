// Shortens the names of functions so that people can read them, and finds the brackets in them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

inline constexpr std::size_t kFunctionNameBytes = 60;
inline constexpr std::size_t kFramePartBytes = 100;  // limit of an unshortened name, a file, or a thread's name

// Makes untrusted text fit for a terminal and for JSON. Returns at most `most` bytes of it, and "..." for the rest.
// Replaces control characters and invalid UTF-8 by '?'.
std::string frame_text(std::string_view text, std::size_t most = kFramePartBytes);

// Returns for each character the position of the bracket that closes it. It is npos if the character is not an opening
// bracket or is never closed. The characters of "operator<" and "->" are not brackets, nor is anything in quotes.
std::vector<std::size_t> closing_brackets(std::string_view text);

// Returns the qualified name of a demangled C++ function. It has no return type, parameters and qualifiers, and no
// parameters of the functions that contain it. Parts that are not understood stay.
//   "bool ddp::ready<int>(int) const" becomes "ddp::ready<int>"
std::string without_parameters(std::string_view function);

// Returns printable text, as frame_text() does. A name of at most `most` bytes stays. A longer one loses its
// parameters, then template arguments ("Group<...>::reduce"), and at last its beginning ("...::reduce").
std::string short_function_name(std::string_view function, std::size_t most = kFunctionNameBytes);

}  // namespace ddp::launcher
