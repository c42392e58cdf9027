// These functions write numbers in few columns, for tables. They are pure. A number that is not finite is shown as "?".
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include "launcher/see/view/curve.h"

namespace ddp::launcher {

// Returns what printf() would write, at most 63 bytes of it.
template <typename... Values>
std::string printed(const char* format, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// Returns at most 6 columns: "85ms", "3.2s", "45s", "3m12s", "2h05m", "4d3h".
std::string short_duration(double seconds);
// Returns at most 5 columns, in powers of 1024: "512B", "1.5K", "64M", "1023G".
std::string short_bytes(double bytes);
// Returns four significant digits or fewer: "1200", "18.3k", "1.842", "0.00012".
std::string short_number(double number);
// Returns a number of processors with one digit after the point, or none from 10 on.
std::string short_cpus(double cpus);
// Returns a share between 0 and 1 as "43%".
std::string short_percent(double share);
// Returns a curve in at most `columns` columns: "▇▆▄▃▂▂▁". It begins with the first point that is known. The lowest
// point has the lowest bar, and what is not known is a space. Returns an empty text if fewer than two points are known.
std::string sparkline(const Curve::Points& points, int columns, bool has_unicode);

}  // namespace ddp::launcher
