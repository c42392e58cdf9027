#include "wire/image_files.h"

#include <sys/stat.h>

#include <array>
#include <charconv>
#include <span>

#include "wire/state_file.h"

namespace ddp::wire {
namespace {

constexpr std::string_view kPrefix = "image-";

// Removes a number from the begin of the text, with the text after it.
template <typename Number>
bool take(std::string_view& text, Number& number, std::string_view after) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(after)) return false;
  text.remove_prefix(after.size());
  return true;
}

}  // namespace

std::string name_of(const KeptImage& image) {
  return std::string(kPrefix) + std::to_string(image.job_began) + "-" + std::to_string(image.attempt) + "-step-" +
         std::to_string(image.step) + "-of-" + std::to_string(image.world) +
         (image.has_one_key ? "-replicas" : "-parts");
}

std::optional<KeptImage> image_named(std::string_view name) {
  KeptImage image;
  std::string_view rest = name;
  if (!rest.starts_with(kPrefix)) return std::nullopt;
  rest.remove_prefix(kPrefix.size());
  const bool has_numbers = take(rest, image.job_began, "-") && take(rest, image.attempt, "-step-") &&
                           take(rest, image.step, "-of-") && take(rest, image.world, "-");
  image.has_one_key = rest == "replicas";
  return has_numbers && name == name_of(image) ? std::optional(image) : std::nullopt;
}

std::string own_file_of(int rank) {
  return "rank-" + std::to_string(rank);
}

std::string whole_file_of(std::uint64_t key) {
  std::array<char, 16> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), key, 16);
  return "whole-" + std::string(digits.data(), end);
}

std::optional<StateEntry> image_entry(int descriptor) {
  StateEntry entry{};
  struct stat status {};
  const bool is_read = read_at(descriptor, 0, std::as_writable_bytes(std::span(&entry, 1)));
  if (!is_read || !is_valid(entry) || ::fstat(descriptor, &status) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_size) == kImageDataAt + entry.bytes ? std::optional(entry) : std::nullopt;
}

}  // namespace ddp::wire
