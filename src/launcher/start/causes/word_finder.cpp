#include "launcher/start/causes/word_finder.h"

#include <algorithm>

#include "base/check.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kBlockBytes = 3;
constexpr std::size_t kBlocks = 1 << 16;
constexpr std::size_t kLongestWindow = 255;

// Returns a number for the block that ends before `end`. Different blocks may have the same number.
std::uint16_t block_before(const char* end) {
  const auto byte = [end](int i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(end[i])); };
  return static_cast<std::uint16_t>((byte(-3) << 10) ^ (byte(-2) << 5) ^ byte(-1));
}

}  // namespace

WordFinder::WordFinder(std::span<const std::string_view> words) : shifts_(kBlocks), begins_(kBlocks + 1) {
  window_ = kLongestWindow;
  for (const std::string_view word : words) {
    DDP_CHECK(word.size() >= kShortestWord, word.size());
    window_ = std::min(window_, word.size());
  }
  std::ranges::fill(shifts_, static_cast<std::uint8_t>(window_ - kBlockBytes + 1));
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t end = kBlockBytes; end <= window_; ++end) {
      std::uint8_t& shift = shifts_[block_before(words[i].data() + end)];
      shift = std::min(shift, static_cast<std::uint8_t>(window_ - end));
    }
    words_.push_back({block_before(words[i].data() + window_), i, std::string(words[i])});
  }
  std::ranges::stable_sort(words_, {}, &Word::block);
  for (const Word& word : words_) ++begins_[word.block + std::size_t{1}];
  for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
}

std::optional<std::size_t> WordFinder::next(std::string_view text, Place& place) const {
  while (place.at + window_ <= text.size()) {
    const std::uint16_t block = block_before(text.data() + place.at + window_);
    if (const std::uint8_t shift = shifts_[block]; shift > 0) {
      place = {place.at + shift, 0};
      continue;
    }
    for (std::size_t i = begins_[block] + place.entry; i < begins_[block + std::size_t{1}]; ++i) {
      ++place.entry;
      if (text.substr(place.at).starts_with(words_[i].text)) return words_[i].index;
    }
    place = {place.at + 1, 0};
  }
  return std::nullopt;
}

}  // namespace ddp::launcher
