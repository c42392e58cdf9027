// ShareColumns keeps, for many rows, the shares of time in which each row was in each of a few states. Time is divided
// into columns of equal width. When all columns are used, neighbours are merged, so memory is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddp::launcher {

//   ShareColumns columns(rows, kStates, 2000);
//   columns.add(state_of_each_row, now);  // again and again
//   columns.finish();
//   columns.share(column, row, state);
class ShareColumns {
 public:
  static constexpr std::uint64_t kFirstWidth = 50'000'000;  // nanoseconds
  static constexpr int kNone = -1;

  ShareColumns() = default;
  // `most_columns` is rounded up to an even number.
  ShareColumns(std::size_t rows, std::size_t states, std::size_t most_columns);

  // Row i was in state active[i] from the end of the previous call to `end`, in nanoseconds since the beginning. kNone
  // stands for no state.
  void add(std::span<const std::int8_t> active, std::uint64_t end);
  // Closes the last column, which may be shorter than the others. Nothing may be added after that.
  void finish();
  // Merges each pair of neighbours. Only after finish().
  void halve();

  std::size_t count() const { return count_; }
  std::uint64_t width() const { return width_; }        // nanoseconds
  std::uint64_t duration() const { return position_; }  // nanoseconds
  // Returns a share of the column's time, from 0 to 255.
  std::uint8_t share(std::size_t column, std::size_t row, std::size_t state) const {
    return cells_[(column * rows_ + row) * states_ + state];
  }

 private:
  void close_column(std::uint64_t width);
  void merge();

  std::size_t rows_ = 0;
  std::size_t states_ = 0;
  std::size_t most_columns_ = 0;
  std::size_t count_ = 0;  // closed columns
  std::uint64_t width_ = kFirstWidth;
  std::uint64_t position_ = 0;
  std::vector<float> current_;       // nanoseconds of each row and state in the open column
  std::vector<std::uint8_t> cells_;  // shares in the closed columns
};

}  // namespace ddp::launcher
