// What the fuzzers call with each input, and what the test replays the corpus through. A broken rule aborts.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ddp::fuzz {

using Input = std::span<const std::uint8_t>;

// The request parser: legacy streams, and current ones (the VALIDATE that announces them is put in front).
void parser_legacy(Input input);
void parser_current(Input input);

// The answer to INSPECT.
void report(Input input);

// A whole server with several clients.
void server(Input input);

struct Target {
  std::string_view name;
  void (*run)(Input);
};
inline constexpr Target kTargets[] = {
    {"parser_legacy", parser_legacy}, {"parser_current", parser_current}, {"report", report}, {"server", server}};

}  // namespace ddp::fuzz
