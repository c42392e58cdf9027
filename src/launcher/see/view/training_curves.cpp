#include "launcher/see/view/training_curves.h"

#include <algorithm>
#include <cmath>

#include "wire/record_ring_layout.h"

namespace ddp::launcher {
namespace {

// A program may report ever new names. The launcher's own curves come in addition.
constexpr std::size_t kMostSeries = wire::kRingValues + 2;

std::optional<std::uint64_t> larger(std::optional<std::uint64_t> one, std::optional<std::uint64_t> other) {
  return one && other ? std::max(*one, *other) : one ? one : other;
}

// Five digits are more than a curve shows, and a report has thousands of these numbers.
double rounded(double number) {
  if (number == 0 || !std::isfinite(number)) return number;
  const double scale = std::pow(10.0, 4 - std::floor(std::log10(std::abs(number))));
  return std::isfinite(scale) && scale > 0 ? std::round(number * scale) / scale : number;
}

}  // namespace

bool reports(std::span<const ProgressValue> values, std::string_view name) {
  return std::ranges::find(values, name, &ProgressValue::name) != values.end();
}

TrainingMoment training_of(std::span<const RankView> ranks, std::vector<ProgressValue> values) {
  TrainingMoment moment;
  moment.values = std::move(values);
  const RankView* reporting = nullptr;
  for (const RankView& rank : ranks) {
    const PageView& page = rank.page;
    if (!page.groups.empty()) moment.steps = std::max({moment.steps, page.steps, page.optimizer_steps});
    const bool reports = page.progress_done > 0 || page.progress_total > 0;
    if (reports && (reporting == nullptr || rank.rank < reporting->rank)) reporting = &rank;
    if (!rank.usage || rank.has_ended) continue;
    moment.memory_bytes = larger(moment.memory_bytes, rank.usage->rss_bytes);
    moment.gpu_memory_bytes = larger(moment.gpu_memory_bytes, rank.usage->gpu_memory_bytes);
  }
  if (reporting == nullptr) return moment;
  moment.is_reported = true;
  moment.steps = reporting->page.progress_done;
  moment.total_steps = reporting->page.progress_total;
  return moment;
}

void TrainingCurves::Cell::merge(const Cell& other) {
  if (other.count == 0) return;
  least = count == 0 ? other.least : std::min(least, other.least);
  most = count == 0 ? other.most : std::max(most, other.most);
  sum += other.sum;
  count += other.count;
}

bool TrainingCurves::reports(std::string_view name) const {
  return std::ranges::any_of(series_, [&](const Series& each) { return each.is_reported && each.name == name; });
}

// Returns the cell of the last column.
TrainingCurves::Cell& TrainingCurves::cell_of(std::string_view name, bool is_reported) {
  if (is_reported) std::erase_if(series_, [&](const Series& each) { return !each.is_reported && each.name == name; });
  auto series = std::ranges::find(series_, name, &Series::name);
  if (series == series_.end()) series = series_.insert(series, {std::string(name), is_reported, {}});
  series->cells.resize(columns_);
  return series->cells.back();
}

void TrainingCurves::add(const TrainingMoment& moment, std::uint64_t now) {
  end_ = std::max(end_, now);
  while (end_ / width_ >= most_columns_) merge_columns();
  columns_ = static_cast<std::size_t>(end_ / width_) + 1;
  // The first count that a program reports may be that of a checkpoint. A smaller number begins another count.
  if (steps_.empty() || steps_.back() == 0 || moment.steps < steps_.back()) {
    first_steps_ = moment.steps;
    steps_.assign(columns_, moment.steps);
  }
  steps_.resize(columns_, steps_.back());
  steps_.back() = moment.steps;
  for (const ProgressValue& value : moment.values) {
    const bool has_space = reports(value.name) || series_.size() < kMostSeries;
    if (std::isfinite(value.value) && has_space)
      cell_of(value.name, true).merge({value.value, value.value, value.value, 1});
  }
  const auto add_own = [&](std::string_view name, const std::optional<std::uint64_t>& bytes) {
    const auto value = static_cast<double>(bytes.value_or(0));
    if (bytes && !reports(name)) cell_of(name, false).merge({value, value, value, 1});
  };
  add_own(kMemoryCurve, moment.memory_bytes);
  add_own(kGpuMemoryCurve, moment.gpu_memory_bytes);
}

void TrainingCurves::merge_columns() {
  width_ *= 2;
  columns_ = (columns_ + 1) / 2;
  for (Series& series : series_) {
    for (std::size_t i = 0; i < series.cells.size(); ++i) {
      if (i % 2 == 0) {
        series.cells[i / 2] = series.cells[i];
      } else {
        series.cells[i / 2].merge(series.cells[i]);
      }
    }
    series.cells.resize((series.cells.size() + 1) / 2);
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) steps_[i / 2] = steps_[i];
  steps_.resize((steps_.size() + 1) / 2);
}

// Returns the rate of each column between the first step and the last one, over as many of its neighbours as have ten
// steps. The rate after the last step is 0 when the next one is overdue.
Curve::Points TrainingCurves::step_rates() const {
  constexpr std::uint64_t kSteps = 10;
  const std::size_t count = steps_.size();
  Curve::Points rates(count);
  const auto before = [&](std::size_t column) { return column == 0 ? first_steps_ : steps_[column - 1]; };
  const auto end_of = [&](std::size_t column) { return std::min((column + 1) * width_, end_); };
  std::size_t begin = count;
  std::size_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (steps_[i] == before(i)) continue;
    begin = std::min(begin, i);
    end = i + 1;
  }
  for (std::size_t i = begin; i < end; ++i) {
    std::size_t first = i;
    std::size_t last = i;
    for (std::size_t reach = 1; steps_[last] - before(first) < kSteps && reach <= count / 8; ++reach) {
      first = std::max(begin, i - std::min(i, reach));
      last = std::min(end - 1, i + reach);
    }
    const double seconds = static_cast<double>(end_of(last) - std::min(end_of(last), first * width_)) / 1e9;
    if (seconds > 0) rates[i] = rounded(static_cast<double>(steps_[last] - before(first)) / seconds);
  }
  const double mean = static_cast<double>(end_of(end - 1) - std::min(end_of(end - 1), begin * width_)) /
                      static_cast<double>(steps_.back() - first_steps_);
  for (std::size_t i = end; i < count; ++i) {
    const bool is_overdue = static_cast<double>(end_of(i) - end_of(end - 1)) > 3 * mean;
    rates[i] = is_overdue ? 0 : rates[i - 1];
  }
  return rates;
}

std::vector<Curve> TrainingCurves::curves() const {
  std::vector<Curve> curves;
  for (const Series& series : series_) {
    Curve& curve = curves.emplace_back(Curve{series.name, {}, {}, {}});
    for (std::size_t i = 0; i < columns_; ++i) {
      const Cell cell = i < series.cells.size() ? series.cells[i] : Cell();
      const auto add = [&](Curve::Points& points, double number) {
        points.push_back(cell.count == 0 ? std::nullopt : std::optional(rounded(number)));
      };
      add(curve.mean, cell.sum / cell.count);
      add(curve.least, cell.least);
      add(curve.most, cell.most);
    }
  }
  // The program's values come first, then the steps per second, and then the memory.
  const auto memory = std::ranges::stable_partition(
      curves, [](const Curve& curve) { return curve.name != kMemoryCurve && curve.name != kGpuMemoryCurve; });
  if (!steps_.empty() && steps_.back() > first_steps_ && !reports(kStepsCurve)) {
    curves.insert(memory.begin(), {std::string(kStepsCurve), step_rates(), {}, {}});
  }
  return curves;
}

}  // namespace ddp::launcher
