#include "launcher/see/view/trace_text.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/hash.h"
#include "base/printable.h"

namespace ddp::launcher {
namespace {

void append_number(std::string& text, std::uint64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (const char c : base::printable(text)) {
    if (c == '"' || c == '\\') json += '\\';
    if (c == '\t') {
      json += "\\t";
    } else {
      json += c;
    }
  }
  return json + '"';
}

TraceText& TraceText::begin(char kind, int process, int thread) {
  text_ += std::exchange(is_first_, false) ? "\n{\"ph\":\"" : ",\n{\"ph\":\"";
  text_ += kind;
  text_ += "\",\"pid\":";
  append_number(text_, static_cast<std::uint64_t>(process));
  text_ += ",\"tid\":";
  append_number(text_, static_cast<std::uint64_t>(thread));
  needs_comma_ = true;
  return *this;
}

TraceText& TraceText::category(std::string_view name) {
  key("cat");
  text_ += '"';
  text_ += name;
  text_ += '"';
  return *this;
}

TraceText& TraceText::time(std::uint64_t at) {
  key("ts");
  microseconds(since_origin(at));
  return *this;
}

TraceText& TraceText::duration(std::uint64_t nanoseconds) {
  key("dur");
  microseconds(nanoseconds);
  return *this;
}

TraceText& TraceText::id(std::uint64_t id) {
  key("id");
  text_ += "\"0x" + base::hex64(id) + '"';
  return *this;
}

TraceText& TraceText::member(std::string_view name, std::string_view json) {
  key(name);
  text_ += json;
  return *this;
}

TraceText& TraceText::member(std::string_view name, std::uint64_t number) {
  key(name);
  append_number(text_, number);
  return *this;
}

TraceText& TraceText::begin_args() {
  text_ += ",\"args\":{";
  has_args_ = true;
  needs_comma_ = false;
  return *this;
}

void TraceText::end() {
  if (std::exchange(has_args_, false)) text_ += '}';
  text_ += '}';
}

std::string TraceText::take() {
  return std::exchange(text_, {});
}

void TraceText::key(std::string_view key) {
  if (std::exchange(needs_comma_, true)) text_ += ',';
  text_ += '"';
  text_ += key;
  text_ += "\":";
}

// The format counts in microseconds. Fractions keep the nanoseconds exact.
void TraceText::microseconds(std::uint64_t nanoseconds) {
  append_number(text_, nanoseconds / 1000);
  const auto rest = static_cast<unsigned>(nanoseconds % 1000);
  if (rest == 0) return;
  text_ += '.';
  for (const unsigned digit : {rest / 100, rest / 10 % 10, rest % 10}) text_ += static_cast<char>('0' + digit);
}

}  // namespace ddp::launcher
