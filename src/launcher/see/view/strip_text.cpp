#include "launcher/see/view/strip_text.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kStripLetters = "uckwpse";  // in the order of RankState
static_assert(kStripLetters.size() == kRankStates);
constexpr int kStripTenths = 10;

// Rounds the shares to tenths whose sum is 10. The largest remainders are rounded up.
StripColumn to_tenths(const ShareColumns& columns, std::size_t column, std::size_t row) {
  StripColumn tenths{};
  std::array<int, kRankStates> remainders{};
  int sum = 0;
  for (std::size_t i = 0; i < tenths.size(); ++i) sum += columns.share(column, row, i);
  if (sum == 0) {
    tenths[0] = kStripTenths;
    return tenths;
  }
  int given = 0;
  for (std::size_t i = 0; i < tenths.size(); ++i) {
    const int scaled = columns.share(column, row, i) * kStripTenths;
    tenths[i] = static_cast<std::uint8_t>(scaled / sum);
    remainders[i] = scaled % sum;
    given += tenths[i];
  }
  for (; given < kStripTenths; ++given) {
    const auto largest = std::ranges::max_element(remainders) - remainders.begin();
    ++tenths[static_cast<std::size_t>(largest)];
    remainders[static_cast<std::size_t>(largest)] = -1;
  }
  return tenths;
}

std::string column_text(const StripColumn& column) {
  std::string text;
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (column[i] == kStripTenths) return {kStripLetters[i]};
    if (column[i] > 0) text += kStripLetters[i] + std::to_string(column[i]);
  }
  return text;
}

// Joins words, and writes a word that is repeated N times as "word*N".
class RunLength {
 public:
  void add(const std::string& word) {
    if (word == word_) {
      ++count_;
      return;
    }
    flush();
    word_ = word;
    count_ = 1;
  }
  std::string take() {
    flush();
    return std::move(text_);
  }

 private:
  void flush() {
    if (count_ == 0) return;
    if (!text_.empty()) text_ += ' ';
    text_ += word_;
    if (count_ > 1) text_ += "*" + std::to_string(count_);
    count_ = 0;
  }

  std::string text_;
  std::string word_;
  std::size_t count_ = 0;
};

// Calls `add` for each word of the text, once per repetition, at most `most` times.
template <typename Add>
void read_runs(std::string_view text, std::size_t most, Add add) {
  for (std::size_t done = 0; !text.empty() && done < most;) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t star = word.find('*');
    const auto count = star == std::string_view::npos ? std::optional<std::int64_t>(1)
                                                      : base::parse_integer(word.substr(star + 1), 1, 1 << 20);
    word = word.substr(0, star);
    for (std::int64_t i = 0; i < count.value_or(1) && done < most; ++i, ++done) add(word);
  }
}

StripColumn read_column(std::string_view word) {
  StripColumn column{};
  if (word.size() == 1 && kStripLetters.find(word[0]) != std::string_view::npos) {
    column[kStripLetters.find(word[0])] = kStripTenths;
    return column;
  }
  for (std::size_t i = 0; i + 1 < word.size(); i += 2) {
    const std::size_t state = kStripLetters.find(word[i]);
    if (state < column.size() && word[i + 1] >= '0' && word[i + 1] <= '9') {
      column[state] = static_cast<std::uint8_t>(word[i + 1] - '0');
    }
  }
  if (std::accumulate(column.begin(), column.end(), 0) != kStripTenths) column = {kStripTenths};
  return column;
}

}  // namespace

char letter_of(RankState state) {
  return kStripLetters.at(static_cast<std::size_t>(state));
}

std::string strip_text(const ShareColumns& columns, std::size_t row) {
  RunLength text;
  for (std::size_t column = 0; column < columns.count(); ++column)
    text.add(column_text(to_tenths(columns, column, row)));
  return text.take();
}

std::string tenths_text(const ShareColumns& columns, std::size_t row) {
  RunLength text;
  for (std::size_t column = 0; column < columns.count(); ++column) {
    text.add(std::to_string((columns.share(column, row, 0) * kStripTenths + 127) / 255));
  }
  return text.take();
}

std::vector<StripColumn> read_strip(std::string_view text, std::size_t most) {
  std::vector<StripColumn> columns;
  read_runs(text, most, [&](std::string_view word) { columns.push_back(read_column(word)); });
  return columns;
}

std::vector<std::uint8_t> read_tenths(std::string_view text, std::size_t most) {
  std::vector<std::uint8_t> tenths;
  read_runs(text, most, [&](std::string_view word) {
    tenths.push_back(static_cast<std::uint8_t>(base::parse_integer(word, 0, kStripTenths).value_or(0)));
  });
  return tenths;
}

}  // namespace ddp::launcher
