// Converts bytes to and from readable hexadecimal text.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace ddp::test {

// Parses hexadecimal digits and ignores spaces: from_hex("CE F7 85") is three bytes.
inline std::string from_hex(std::string_view text) {
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<char>(high * 16 + digit));
      high = -1;
    }
  }
  return bytes;
}

// Does the reverse of from_hex, for readable failures.
inline std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    char pair[4];
    std::snprintf(pair, sizeof pair, "%s%02X", text.empty() ? "" : " ", static_cast<unsigned char>(byte));
    text += pair;
  }
  return text;
}

}  // namespace ddp::test
