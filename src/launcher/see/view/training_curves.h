// TrainingCurves follows how a training goes over the time of an attempt: the steps, the values that the program
// reports, and the memory in use. It is pure, and its memory is bounded, whatever the length of the job is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/ranks/rank_records.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/see/view/curve.h"

namespace ddp::launcher {

// Describes a training at one moment.
struct TrainingMoment {
  std::uint64_t steps = 0;
  std::uint64_t total_steps = 0;      // 0 if it is unknown
  bool is_reported = false;           // the program itself counts the steps
  std::vector<ProgressValue> values;  // such as the loss
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> gpu_memory_bytes;
};

// Returns whether the program reports a value of this name. It then takes the place of the launcher's own number.
bool reports(std::span<const ProgressValue> values, std::string_view name);

// Returns the moment that these ranks show. The steps are those of the lowest rank that reports its progress. Otherwise
// the steps that ranks synchronise count, or those of PyTorch's optimizers. The memory is that of the rank with the
// most. `values` are those of the lowest rank that reports any.
TrainingMoment training_of(std::span<const RankView> ranks, std::vector<ProgressValue> values);

class TrainingCurves {
 public:
  static constexpr std::uint64_t kFirstWidth = 250'000'000;  // nanoseconds

  // `most_columns` is even.
  explicit TrainingCurves(std::size_t most_columns) : most_columns_(most_columns) {}

  // `now` counts from the beginning of the attempt, in nanoseconds, and only grows. A reported value replaces the
  // launcher's own curve of the same name.
  void add(const TrainingMoment& moment, std::uint64_t now);

  // Returns the curves in which anything was seen, all with columns() points.
  std::vector<Curve> curves() const;
  std::size_t columns() const { return columns_; }
  std::uint64_t width() const { return width_; }  // of a column, nanoseconds

 private:
  struct Cell {
    double sum = 0;
    double least = 0;
    double most = 0;
    std::uint32_t count = 0;

    void merge(const Cell& other);
  };
  struct Series {
    std::string name;
    bool is_reported = false;  // by the program
    std::vector<Cell> cells;
  };

  bool reports(std::string_view name) const;
  Cell& cell_of(std::string_view name, bool is_reported);
  void merge_columns();
  Curve::Points step_rates() const;

  std::size_t most_columns_;
  std::size_t columns_ = 0;
  std::uint64_t width_ = kFirstWidth;
  std::uint64_t end_ = 0;             // of the last moment, nanoseconds
  std::uint64_t first_steps_ = 0;     // those of the first moment, which a checkpoint may have had
  std::vector<std::uint64_t> steps_;  // at the end of each column
  std::vector<Series> series_;
};

}  // namespace ddp::launcher
