#include <ddp/error.h>

#include <array>

namespace ddp {

std::string_view to_string(ErrorKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {"invalid_argument", "timeout", "peer_lost", "mismatch",
                                                      "unavailable",      "aborted", "corrupt",   "internal"};
  static_assert(kNames.size() == static_cast<std::size_t>(ErrorKind::internal) + 1);
  const auto number = static_cast<std::size_t>(kind);
  return number < kNames.size() ? kNames[number] : "unknown";
}

}  // namespace ddp
