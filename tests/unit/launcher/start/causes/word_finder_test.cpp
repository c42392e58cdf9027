#include "launcher/start/causes/word_finder.h"

#include <random>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/random_seed.h"

namespace ddp::launcher {
namespace {

std::vector<std::size_t> found(const std::vector<std::string_view>& words, std::string_view text) {
  const WordFinder finder(words);
  std::vector<std::size_t> indices;
  WordFinder::Place place;
  while (const auto word = finder.next(text, place)) indices.push_back(*word);
  return indices;
}

TEST_CASE("words are found in the order of their positions") {
  const std::vector<std::string_view> words = {"out of memory", "Address already in use", "in use by"};
  CHECK(found({"out of memory", "Address already in use"}, "Address already in use, out of memory") ==
        std::vector<std::size_t>{1, 0});
  CHECK(found({"out of memory"}, "out of memory").size() == 1);
  CHECK(found({"out of memory"}, "out of memor").empty());
  CHECK(found({"out of memory"}, "").empty());
}

TEST_CASE("all words that begin at the same position are found") {
  CHECK(found({"out of memory", "out of memory"}, "CUDA out of memory.") == std::vector<std::size_t>{0, 1});
  CHECK(found({"out of memory error", "out of memory"}, "out of memory error").size() == 2);
}

TEST_CASE("the word finder finds nothing if it has no words") {
  CHECK(found({}, std::string(1000, 'a')).empty());
}

TEST_CASE("the word finder agrees with a plain search") {
  const unsigned seed = test::random_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const auto letters = [&](std::size_t length) {
      std::string text;
      while (text.size() < length) text += static_cast<char>('a' + random() % 2);
      return text;
    };
    std::vector<std::string> texts;
    for (int i = 0; i < 20; ++i) texts.push_back(letters(8 + random() % 6));
    const std::vector<std::string_view> words(texts.begin(), texts.end());
    const std::string text = letters(500);
    std::size_t expected = 0;
    for (const std::string& word : texts) {
      for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++expected;
    }
    CHECK(found(words, text).size() == expected);
  }
}

}  // namespace
}  // namespace ddp::launcher
