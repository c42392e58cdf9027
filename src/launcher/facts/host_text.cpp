#include "launcher/facts/host_text.h"

namespace ddp::launcher {

bool is_host_character(char character) {
  const bool letter = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
  const bool digit = character >= '0' && character <= '9';
  return letter || digit || std::string_view(".-_:%@").find(character) != std::string_view::npos;
}

std::string shown(std::string_view text, std::size_t most) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char character : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f && character != '"' && character != '\\') {
      result += character;
    } else {
      result += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return result + (text.size() > most ? "…\"" : "\"");
}

base::Failure wrong_host(std::string_view part, const std::string& why) {
  return {"host " + shown(part) + " " + why};
}

}  // namespace ddp::launcher
