// Names of functions, short enough for a person to read, and the brackets in them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

inline constexpr std::size_t kFunctionNameBytes = 60;
inline constexpr std::size_t kFramePartBytes = 100;  // of a name that is not shortened, a file, a thread's name

// Text that somebody else has chosen, fit for a terminal and for JSON: at most `most` bytes of it, the rest as "...",
// with '?' for control characters and for what is not UTF-8.
std::string frame_text(std::string_view text, std::size_t most = kFramePartBytes);

// For each character the place of the bracket that closes it; npos if it is no bracket that opens, or never closed.
// The characters of "operator<" and "->" are no brackets, nor is what stands in quotes.
std::vector<std::size_t> closing_brackets(std::string_view text);

// Of a demangled C++ function the qualified name: without what it returns, its parameters and qualifiers, and the
// parameters of functions that it is local to. What is not understood stays.
//   "bool ddp::ready<int>(int) const" is "ddp::ready<int>"
std::string without_parameters(std::string_view function);

// As printable as by frame_text. A name of at most `most` bytes stays; a longer one loses its parameters, then template
// arguments ("Group<...>::reduce"), at last its beginning ("...::reduce").
std::string short_function_name(std::string_view function, std::size_t most = kFunctionNameBytes);

}  // namespace ddp::launcher
