// KeyReader turns the bytes of a keyboard into keys. It is pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

struct Key {
  enum class Kind : std::uint8_t {
    text,  // a printable character
    enter,
    escape,
    backspace,
    up,
    down,
    page_up,
    page_down,
    home,
    end,
    redraw,  // Ctrl-L
    other,
  };
  Kind kind = Kind::other;
  std::string text;  // only for `text`

  friend bool operator==(const Key&, const Key&) = default;
};

class KeyReader {
 public:
  // Returns the keys that are complete.
  std::vector<Key> add(std::string_view bytes);
  // Returns whether the last byte is an escape character: either the key Esc, or the beginning of a sequence.
  bool is_undecided() const { return rest_ == "\x1b"; }
  // Decides for Esc. Call this if no more bytes have come for a moment.
  std::vector<Key> decide();

 private:
  std::string rest_;  // an unfinished sequence or character
};

}  // namespace ddp::launcher
