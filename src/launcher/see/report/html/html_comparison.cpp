#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"
#include "launcher/see/view/short_figures.h"

namespace ddp::launcher {
namespace {

using Number = std::optional<double>;

// Returns the median over the ranks of what `value` returns, which may be std::nullopt.
template <typename Value>
Number over_ranks(const AttemptHistory& history, const Value& value) {
  Curve::Points numbers;
  for (const RankHistory& rank : history.ranks) numbers.push_back(value(rank));
  return median_of(numbers);
}

// Returns the share of its time that the median rank was in the state.
Number share_of(const AttemptHistory& history, RankState state) {
  return over_ranks(history, [&](const RankHistory& rank) -> Number {
    const double all = seconds_of(rank);
    const double known = all - rank.seconds[static_cast<std::size_t>(RankState::unknown)];
    if (known <= 0) return std::nullopt;
    return rank.seconds[static_cast<std::size_t>(state)] / all;
  });
}

Number most_of(const AttemptHistory& history, std::string_view name) {
  const auto curve = std::ranges::find(history.curves, name, &Curve::name);
  Number most;
  if (curve == history.curves.end()) return most;
  for (const auto& point : curve->most) {
    if (point) most = std::max(most.value_or(*point), *point);
  }
  return most;
}

// Describes one row of the table: what is compared, and how its numbers are written.
struct Figure {
  std::string name;
  std::function<Number(const AttemptHistory&)> value;
  std::string (*text)(double);
};

std::string percent_text(double share) {
  return short_percent(share);
}

std::vector<Figure> figures() {
  const auto memory = [](double bytes) { return curve_number(kMemoryCurve, bytes); };
  const auto share = [](RankState state) {
    return [state](const AttemptHistory& history) { return share_of(history, state); };
  };
  return {
      {"duration of the attempt", [](const AttemptHistory& history) { return Number(history.seconds); }, seconds_text},
      {"steps",
       [](const AttemptHistory& history) {
         return over_ranks(history, [](const RankHistory& rank) { return Number(static_cast<double>(rank.steps)); });
       },
       short_number},
      {"steps/s, median",
       [](const AttemptHistory& history) -> Number {
         const auto curve = std::ranges::find(history.curves, kStepsCurve, &Curve::name);
         return curve == history.curves.end() ? std::nullopt : usual_rate(*curve);
       },
       short_number},
      {"step, median",
       [](const AttemptHistory& history) {
         return over_ranks(history, [](const RankHistory& rank) { return rank.step_median; });
       },
       seconds_text},
      {"step, p99",
       [](const AttemptHistory& history) {
         return over_ranks(history, [](const RankHistory& rank) { return rank.step_p99; });
       },
       seconds_text},
      {"computing", share(RankState::computing), percent_text},
      {"in collectives", share(RankState::collective), percent_text},
      {"waiting for ranks", share(RankState::waiting), percent_text},
      {"most memory of a rank", [](const AttemptHistory& h) { return most_of(h, kMemoryCurve); }, memory},
      {"most GPU memory of a rank", [](const AttemptHistory& h) { return most_of(h, kGpuMemoryCurve); }, memory}};
}

using Text = std::string (*)(double);

// Shares are compared by their difference in points.
std::string change_cell(Number before, Number after, Text text) {
  const bool is_share = text == percent_text;
  if (!before || !after || (*before <= 0 && !is_share)) return text_cell("–");
  const double change = is_share ? *after - *before : *after / *before - 1;
  const std::string sign = change > 0 ? "+" : change < 0 ? "−" : "";
  const double size = std::abs(change);
  return number_cell(change,
                     sign + (is_share ? short_number(std::round(100 * size)) + " points" : share_text(size, 1)));
}

std::string figure_row(const std::string& name, Number a, Number b, Text text) {
  const auto cell = [&](const Number& number) { return number ? number_cell(*number, text(*number)) : text_cell("–"); };
  return "<tr>" + text_cell(name) + cell(a) + cell(b) + change_cell(a, b, text) + "</tr>\n";
}

std::string figures_table(const AttemptHistory& a, const AttemptHistory& b) {
  static constexpr std::array<std::string_view, 4> kHeads = {"figure", "#A", "#B", "#B against A"};
  std::string html =
      "<section id=figures class=card>\n<h2>Figures</h2>\n<p>Those of the last attempt. Figures of ranks "
      "are those of the median rank.</p>\n<div class=scroll><table>\n" +
      table_head(kHeads) + "<tbody>\n";
  for (const Figure& figure : figures()) {
    const Number one = figure.value(a);
    const Number other = figure.value(b);
    if (one || other) html += figure_row(figure.name, one, other, figure.text);
  }
  return html + "</tbody></table></div>\n</section>\n";
}

std::string curves_section(const AttemptHistory& a, const AttemptHistory& b) {
  std::string charts;
  for (const Curve& curve : a.curves) {
    std::vector<ChartLine> lines = {{&curve, a.curve_seconds, "A"}};
    const auto other = std::ranges::find(b.curves, curve.name, &Curve::name);
    if (other != b.curves.end()) lines.push_back({&*other, b.curve_seconds, "B"});
    charts += curve_chart(lines);
  }
  if (charts.empty()) return "";
  return "<section id=training class=card>\n<h2>Training</h2>\n<p class=legend><span><i class=\"swatch "
         "sample0\"></i>A</span><span><i class=\"swatch sample1\"></i>B</span></p>\n<div class=plots>\n" +
         charts + "</div>\n</section>\n";
}

std::string collectives_table(const AttemptHistory& a, const AttemptHistory& b) {
  static constexpr std::array<std::string_view, 4> kHeads = {"collective, median time of a call", "#A", "#B",
                                                             "#B against A"};
  std::string rows;
  for (const CollectiveHistory& row : a.collectives) {
    const auto same = std::ranges::find_if(b.collectives, [&](const CollectiveHistory& other) {
      return other.operation == row.operation && other.name == row.name && other.group == row.group;
    });
    if (same == b.collectives.end()) continue;
    const std::string name = row.name.empty() ? "" : " '" + row.name + "'";
    rows += figure_row(row.operation + name + " in " + row.group, row.median, same->median, seconds_text);
  }
  if (rows.empty()) return "";
  return "<section id=collectives class=card>\n<h2>Collectives of both</h2>\n<div class=\"scroll tall\" tabindex=0 "
         "role=group aria-label=Collectives><table>\n" +
         table_head(kHeads) + "<tbody>\n" + rows + "</tbody></table></div>\n</section>\n";
}

std::string run_card(const char* letter, const RunRecord& run) {
  std::string words;
  for (const std::string& word : run.arguments) words += (words.empty() ? "" : " ") + word;
  return "<section class=\"card verdict " + std::string(class_of(result_of(run))) + "\">\n<h2>" + letter + ": " +
         html_text(program_of(run)) + " <span class=\"pill " + class_of(result_of(run)) + "\">" +
         html_text(result_text(run)) + "</span></h2>\n<p>Run " + html_text(run.run_id) + ", started " +
         html_text(run.started.substr(0, 19)) + " UTC, " + seconds_text(run.seconds) + "</p>\n<p><code>" +
         html_text(words) + "</code></p>\n" + (run.text.empty() ? "" : "<p>" + html_text(run.text.front()) + "</p>\n") +
         "</section>\n";
}

}  // namespace

std::string comparison_sections(const RunRecord& a, const RunRecord& b) {
  std::string html = "<div class=plots>\n" + run_card("A", a) + run_card("B", b) + "</div>\n";
  const AttemptRecord* const one = last_with_history(a);
  const AttemptRecord* const other = last_with_history(b);
  if (one == nullptr || other == nullptr) {
    return html + "<section id=missing class=\"card note\"><h2>What this report lacks</h2><p>The event log of run " +
           (one == nullptr ? "A" : "B") + " contains no history, so nothing can be compared.</p></section>\n";
  }
  const AttemptHistory& first = *one->history;
  const AttemptHistory& second = *other->history;
  return html + figures_table(first, second) + curves_section(first, second) + collectives_table(first, second);
}

}  // namespace ddp::launcher
