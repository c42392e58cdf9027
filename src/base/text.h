// These are small pure functions on text that several components need.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::base {

// Parses the whole `text` as a decimal integer within [minimum, maximum]. Returns std::nullopt for anything else
// (spaces, "+1", "1x").
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t minimum, std::int64_t maximum);

// Parses the whole `text` as a hexadecimal number without "0x". Returns std::nullopt for anything else.
std::optional<std::uint64_t> parse_hex(std::string_view text);

// Parses the whole `text` as a finite, non-negative decimal number. Returns std::nullopt for anything else.
std::optional<double> parse_number(std::string_view text);

// Returns the number of inserted, missing, wrong and swapped letters between two words (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the candidate that differs least from `word` (inserted, missing, wrong and swapped letters), if that may be a
// typing mistake: at most a third of the word's length, or 1, and never the whole word. The first one wins a tie.
std::optional<std::string> nearest_match(std::string_view word, std::span<const std::string> candidates);

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
void append(std::vector<std::string>& texts, std::span<const std::string> more);

// Returns the words of `text`, which are separated by one or more of these `spaces`.
std::vector<std::string> words(std::string_view text, std::string_view spaces = " ");

// Returns `text` without the `spaces` before and after it.
std::string trimmed(std::string_view text, std::string_view spaces = " \t\r\n");

// Removes the first line from `text`, and returns it without the line break.
std::string_view take_line(std::string_view& text);

// Formats ranks for users: {0,1,2,5,6} becomes "0-2, 5, 6". Expects ascending order.
std::string rank_list(std::span<const int> ranks);
// Formats ranks with their noun: "rank 1", "ranks 0-2, 5".
std::string ranks_text(const std::vector<int>& ranks);
// Formats ranks with a verb: ranks_text({0, 2}, "waits", "wait") returns "ranks 0, 2 wait".
std::string ranks_text(const std::vector<int>& ranks, const char* one, const char* several);
// Does the same, after "; ", for a list as text such as "0, 2-5". Returns an empty text for an empty list.
std::string rank_clause(const std::string& list, const char* one, const char* several);
// Formats numbers as taskset and lscpu write CPUs: "0-2,5-6".
std::string short_rank_list(std::span<const int> ranks);

// Formats a duration with a suitable unit: "85 ms", "3.2 s", "3 min 12 s", "2 h 5 min".
std::string human_duration(std::chrono::nanoseconds duration);

// Formats a size with a suitable unit: "512 B", "64 MiB", "1.5 GiB".
std::string human_bytes(std::uint64_t bytes);

// Parses a whole number of bytes, KiB, MiB, GiB or TiB: "4096", "64MiB", "64 mib". Returns std::nullopt for anything
// else, or for more than 2^63-1 bytes.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

// Returns the word as a user types it in a shell, in quotes if it needs them.
std::string shell_quoted(std::string_view word);

// Formats a count with its noun: "1 worker", "2 workers", "2 processes".
std::string counted(std::int64_t count, std::string_view noun);
// Formats a count with its noun and a verb: counted(2, "line", "was", "were") returns "2 lines were".
std::string counted(std::int64_t count, std::string_view noun, const char* one, const char* several);

// Returns the word that fits the count: plural(2, "it", "them") returns "them".
std::string plural(std::integral auto count, const char* one, const char* several) {
  return count == 1 ? one : several;
}

}  // namespace ddp::base
