// Writes the causes that ddplaunch knows as text: a page of the manual, and the help on one of them. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/start/causes/cause.h"

namespace ddp::launcher {

enum class Language : std::uint8_t { english, chinese };

// Returns the page in Markdown.
std::string known_errors_page(Language language);

// Returns a few lines, for a terminal.
std::string cause_help(const Cause& cause);

}  // namespace ddp::launcher
