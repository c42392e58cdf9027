// The fuzzers call these functions with each input, and the replay test calls them with the corpus. They abort if a
// rule is broken.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ddp::fuzz {

using Input = std::span<const std::uint8_t>;

// Test the request parser with legacy and current streams. The VALIDATE that announces a current stream is put in
// front.
void parser_legacy(Input input);
void parser_current(Input input);

// Tests the decoder of the answer to INSPECT.
void report(Input input);

// Tests a whole server with several clients.
void server(Input input);

// Test what `ddplaunch explain` reads: pickles, dumps of PyTorch's flight recorder, lines of its watchdog, and logs.
void explain_pickle(Input input);
void explain_dump(Input input);
void explain_lines(Input input);
void explain_log(Input input);

struct Target {
  std::string_view name;
  void (*run)(Input);
};
inline constexpr Target kTargets[] = {{"parser_legacy", parser_legacy},
                                      {"parser_current", parser_current},
                                      {"report", report},
                                      {"server", server},
                                      {"explain_pickle", explain_pickle},
                                      {"explain_dump", explain_dump},
                                      {"explain_lines", explain_lines},
                                      {"explain_log", explain_log}};

}  // namespace ddp::fuzz
