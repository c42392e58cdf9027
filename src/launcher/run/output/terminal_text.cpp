#include "launcher/run/output/terminal_text.h"

#include <algorithm>
#include <clocale>
#include <cwchar>

#include "base/printable.h"

namespace ddp::launcher {
namespace {

constexpr char kEscape = '\x1b';

// Makes the C library's functions treat text as UTF-8, whatever the user's locale is, as long as the object exists.
class Utf8Locale {
 public:
  Utf8Locale() : before_(::uselocale(kept())) {}
  ~Utf8Locale() { ::uselocale(before_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  // A system without this locale keeps the current one, in which other characters than ASCII count as narrow.
  static locale_t kept() {
    static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return utf8;
  }

  locale_t before_;
};

bool is_final(char byte) {
  return byte >= '@' && byte <= '~';
}

// Returns the last byte of a control sequence (CSI), such as 'm' for a colour. Returns 0 for other sequences.
char control_of(std::string_view sequence) {
  const bool is_control = sequence.size() > 2 && sequence[1] == '[' && is_final(sequence.back());
  return is_control ? sequence.back() : '\0';
}

bool is_string_sequence(std::string_view sequence) {
  return sequence.size() > 1 && sequence[1] == ']';
}

}  // namespace

std::size_t columns_of_character(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (bytes.size() == 1) return 1;
  const Utf8Locale utf8;
  wchar_t character = static_cast<wchar_t>(byte(0) & (0xffU >> (bytes.size() + 1)));
  for (std::size_t i = 1; i < bytes.size(); ++i) character = character << 6 | static_cast<wchar_t>(byte(i) & 0x3fU);
  const int width = ::wcwidth(character);
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

std::size_t sequence_length(std::string_view text) {
  if (text.empty() || text.front() != kEscape) return 0;
  if (text.size() < 2) return 1;
  if (text[1] == ']') {  // OSC: a title or a link, which ends with BEL or ESC \.
    for (std::size_t i = 2; i < text.size(); ++i) {
      if (text[i] == '\a') return i + 1;
      if (text[i] == kEscape) return std::min(i + 2, text.size());
    }
    return text.size();
  }
  if (text[1] != '[') return 2;
  const auto* const end = std::find_if(text.begin() + 2, text.end(), is_final);
  return static_cast<std::size_t>(end - text.begin()) + (end == text.end() ? 0 : 1);
}

std::optional<std::size_t> column_after(std::string_view text, std::size_t from) {
  constexpr std::size_t kTab = 8;
  std::size_t column = from;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (const std::size_t length = sequence_length(rest); length > 0) {
      const std::string_view sequence = rest.substr(0, length);
      if (control_of(sequence) != 'm' && control_of(sequence) != 'K' && !is_string_sequence(sequence)) {
        return std::nullopt;
      }
      i += length;
      continue;
    }
    const std::size_t length = base::printable_length(rest);
    if (length == 0) return std::nullopt;
    column = rest.front() == '\t' ? (column / kTab + 1) * kTab : column + columns_of_character(rest.substr(0, length));
    i += length;
  }
  return column;
}

std::string fit_to_columns(std::string_view text, std::size_t columns) {
  std::string line;
  bool is_full = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (const std::size_t length = sequence_length(rest); length > 0) {
      if (control_of(rest.substr(0, length)) == 'm') line += rest.substr(0, length);
      i += length;
      continue;
    }
    const std::size_t length = base::printable_length(rest);
    i += std::max<std::size_t>(length, 1);
    if (length == 0 || is_full) continue;
    const bool is_tab = rest.front() == '\t';
    const std::size_t width = columns_of_character(rest.substr(0, length));
    is_full = width > columns;
    if (is_full) continue;
    columns -= width;
    line += is_tab ? " " : rest.substr(0, length);
  }
  return line;
}

bool moves_cursor(std::string_view text) {
  for (std::size_t at = 0; (at = text.find(kEscape, at)) != std::string_view::npos;) {
    const std::string_view sequence = text.substr(at, sequence_length(text.substr(at)));
    const char control = control_of(sequence);
    if (control != 'm' && control != 'K' && !is_string_sequence(sequence)) return true;
    at += sequence.size();
  }
  return false;
}

}  // namespace ddp::launcher
