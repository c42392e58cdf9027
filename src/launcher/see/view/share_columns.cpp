#include "launcher/see/view/share_columns.h"

#include <algorithm>
#include <cmath>

namespace ddp::launcher {

ShareColumns::ShareColumns(std::size_t rows, std::size_t states, std::size_t most_columns)
    : rows_(rows), states_(states), most_columns_((most_columns + 1) / 2 * 2), current_(rows * states) {}

void ShareColumns::add(std::span<const std::int8_t> active, std::uint64_t end) {
  while (position_ < end && most_columns_ > 0) {
    // The open column begins after the closed ones, which all have the same width.
    const std::uint64_t column_end = (count_ + 1) * width_;
    const std::uint64_t until = std::min(end, column_end);
    const auto part = static_cast<float>(until - position_);
    for (std::size_t row = 0; row < std::min(rows_, active.size()); ++row) {
      const auto state = static_cast<std::size_t>(active[row]);
      if (active[row] >= 0 && state < states_) current_[row * states_ + state] += part;
    }
    position_ = until;
    if (until == column_end) close_column(width_);
  }
}

void ShareColumns::close_column(std::uint64_t width) {
  for (float& time : current_) {
    cells_.push_back(static_cast<std::uint8_t>(std::min(255.0F, std::round(time * 255 / static_cast<float>(width)))));
    time = 0;
  }
  ++count_;
  if (count_ == most_columns_) merge();
}

void ShareColumns::merge() {
  const std::size_t row_cells = rows_ * states_;
  const std::size_t pairs = (count_ + 1) / 2;
  for (std::size_t column = 0; column < pairs; ++column) {
    const bool has_neighbour = column * 2 + 1 < count_;
    for (std::size_t cell = 0; cell < row_cells; ++cell) {
      const int left = cells_[column * 2 * row_cells + cell];
      const int right = has_neighbour ? cells_[(column * 2 + 1) * row_cells + cell] : left;
      cells_[column * row_cells + cell] = static_cast<std::uint8_t>((left + right + 1) / 2);
    }
  }
  cells_.resize(pairs * row_cells);
  count_ = pairs;
  width_ *= 2;
}

void ShareColumns::finish() {
  const std::uint64_t begin = count_ * width_;
  if (position_ > begin) close_column(position_ - begin);
}

void ShareColumns::halve() {
  if (count_ > 1) merge();
}

}  // namespace ddp::launcher
