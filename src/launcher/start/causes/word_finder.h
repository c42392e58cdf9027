// WordFinder looks for many words in a text at once. It reads only a part of the text: after S. Wu and U. Manber, "A
// Fast Algorithm for Multi-Pattern Searching", University of Arizona, TR-94-17, 1994.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

//   const std::string_view words[] = {"out of memory", "Address already in use"};
//   const WordFinder finder(words);
//   WordFinder::Place place;
//   while (const auto word = finder.next(line, place)) …  // the indices of the words that the line contains
class WordFinder {
 public:
  // Where a search goes on.
  struct Place {
    std::size_t at = 0;     // where a word begins
    std::size_t entry = 0;  // how many words that may begin there are done
  };

  static constexpr std::size_t kShortestWord = 8;  // bytes

  // Each word has at least kShortestWord bytes. Several may be equal.
  explicit WordFinder(std::span<const std::string_view> words);

  // Returns the index of the next word in the text, and moves `place` behind it. Returns std::nullopt if there is none.
  std::optional<std::size_t> next(std::string_view text, Place& place) const;

 private:
  struct Word {
    std::uint16_t block = 0;  // the last block of the first window_ bytes
    std::size_t index = 0;
    std::string text;
  };

  std::size_t window_ = 0;             // bytes of each word that the table knows: the length of the shortest word
  std::vector<std::uint8_t> shifts_;   // by block: how far the search may move on if the window ends with the block
  std::vector<std::uint32_t> begins_;  // by block: its first word in `words_`. The last entry is their number
  std::vector<Word> words_;            // sorted by block, then by index
};

}  // namespace ddp::launcher
