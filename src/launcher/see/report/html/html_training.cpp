#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"
#include "launcher/see/view/short_figures.h"

namespace ddp::launcher {
namespace {

constexpr double kHeight = 100;  // of a chart, in units of its own

bool is_memory(std::string_view name) {
  return name == kMemoryCurve || name == kGpuMemoryCurve;
}

// Represents the range of numbers that a chart shows.
struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void add(const Curve::Points& points) {
    for (const auto& point : points) {
      if (!point) continue;
      least = std::min(least, *point);
      most = std::max(most, *point);
    }
  }
  bool is_empty() const { return least > most; }
  double height_of(double number) const {
    return most > least ? kHeight * (most - number) / (most - least) : kHeight / 2;
  }
};

std::string point_text(double x, double y) {
  return plain_number(x) + " " + plain_number(y);
}

// Calls `add` for each part of the points in which all are known: first index and number.
template <typename Add>
void for_each_part(const Curve::Points& points, const Add& add) {
  for (std::size_t i = 0; i < points.size();) {
    std::size_t end = i;
    while (end < points.size() && points[end]) ++end;
    if (end > i) add(i, end - i);
    i = end + 1;
  }
}

// Draws a line through the middle of each column. A part of one column is drawn over its width.
std::string line_path(const Curve::Points& points, const Range& range, double width) {
  std::string path;
  for_each_part(points, [&](std::size_t first, std::size_t count) {
    const double half = count == 1 ? 0 : 0.5;
    for (std::size_t i = first; i < first + count; ++i) {
      const double x = (static_cast<double>(i) + half) * width;
      path += (i == first ? "M" : "L") + point_text(x, range.height_of(*points[i]));
    }
    if (count == 1) path += "h" + plain_number(width);
  });
  return path;
}

// Draws the area between the least and the most number of each column.
std::string band_path(const Curve& curve, const Range& range, double width) {
  if (curve.least.size() != curve.mean.size() || curve.most.size() != curve.mean.size()) return "";
  std::string path;
  for_each_part(curve.mean, [&](std::size_t first, std::size_t count) {
    const auto x = [&](std::size_t i) { return (static_cast<double>(i) + 0.5) * width; };
    const auto y = [&](const Curve::Points& points, std::size_t i) {
      return range.height_of(points[i].value_or(*curve.mean[i]));
    };
    for (std::size_t i = first; i < first + count; ++i)
      path += (i == first ? "M" : "L") + point_text(x(i), y(curve.most, i));
    for (std::size_t i = first + count; i-- > first;) path += "L" + point_text(x(i), y(curve.least, i));
    path += "z";
  });
  return path;
}

std::optional<double> last_of(const Curve::Points& points) {
  const auto last = std::find_if(points.rbegin(), points.rend(), [](const auto& point) { return point.has_value(); });
  return last == points.rend() ? std::nullopt : *last;
}

}  // namespace

std::string curve_number(std::string_view name, double number) {
  if (is_memory(name)) return base::human_bytes(static_cast<std::uint64_t>(std::clamp(number, 0.0, 1e18)));
  return short_number(number);
}

std::optional<double> median_of(const Curve::Points& points) {
  std::vector<double> known;
  for (const auto& point : points) {
    if (point) known.push_back(*point);
  }
  if (known.empty()) return std::nullopt;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::ranges::nth_element(known, middle);
  return *middle;
}

std::optional<double> usual_rate(const Curve& steps) {
  Curve::Points rates = steps.mean;
  std::erase_if(rates, [](const auto& rate) { return rate == 0.0; });
  return median_of(rates);
}

std::string curve_chart(std::span<const ChartLine> lines) {
  const std::string& name = lines.front().curve->name;
  Range range;
  double seconds = 1e-6;
  for (const ChartLine& line : lines) {
    const Curve& curve = *line.curve;
    range.add(curve.mean);
    range.add(curve.least);
    range.add(curve.most);
    seconds = std::max(seconds, line.column_seconds * static_cast<double>(curve.mean.size()));
  }
  if (range.is_empty()) return "";
  // From 0 on, a rate or a size can be compared. A loss needs all of the height.
  if (is_memory(name) || name == kStepsCurve) range.least = 0;
  std::string svg;
  std::string facts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& [curve, column_seconds, label] = lines[i];
    const double width = 1000 * column_seconds / seconds;
    const std::string line = "line" + std::to_string(i);
    svg += "<path class=\"band " + line + "\" d=\"" + band_path(*curve, range, width) + "\"/><path class=\"curve " +
           line + "\" vector-effect=non-scaling-stroke d=\"" + line_path(curve->mean, range, width) + "\"/>";
    const bool is_rate = name == kStepsCurve;
    const auto number = is_rate ? usual_rate(*curve) : last_of(curve->mean);
    if (!number) continue;
    facts += (facts.empty() ? "" : ", ") + (label.empty() ? std::string(is_rate ? "median " : "last ") : label + " ") +
             curve_number(name, *number);
  }
  return "<figure class=plot><figcaption><b>" + html_text(name) + "</b> <span class=soft>" + html_text(facts) +
         "</span></figcaption>\n<div class=area><svg viewBox=\"0 0 1000 100\" preserveAspectRatio=none role=img "
         "aria-label=\"" +
         html_text(name + " over time: " + facts) + "\">" + svg + "</svg><span class=high>" +
         html_text(curve_number(name, range.most)) + "</span><span class=low>" +
         html_text(curve_number(name, range.least)) + "</span></div>\n<div class=track>" + axis_html(seconds, true) +
         "</div></figure>\n";
}

std::string training_section(const RunRecord& run) {
  std::string html;
  constexpr int kMostAttempts = 10;
  int shown = 0;
  for (auto attempt = run.attempts.rbegin(); attempt != run.attempts.rend() && shown < kMostAttempts; ++attempt) {
    if (!attempt->history || attempt->history->curves.empty()) continue;
    std::string charts;
    for (const Curve& curve : attempt->history->curves) {
      const ChartLine line{&curve, attempt->history->curve_seconds, ""};
      charts += curve_chart({&line, 1});
    }
    if (charts.empty()) continue;
    charts = "<div class=plots>\n" + charts + "</div>\n";
    if (run.attempts.size() == 1) {
      html += charts;
    } else {
      html += std::string("<details") + (shown == 0 ? " open" : "") + "><summary>Attempt " +
              std::to_string(attempt->number) + ", " + html_text(result_text(*attempt)) + "</summary>\n" + charts +
              "</details>\n";
    }
    ++shown;
  }
  if (html.empty()) return "";
  return "<section id=training class=card>\n<h2>Training</h2>\n<p class=legend>The line is the mean of a column of "
         "time, and the band goes from its least to its greatest number. Memory is that of the rank with the "
         "most.</p>\n" +
         html + "</section>\n";
}

}  // namespace ddp::launcher
