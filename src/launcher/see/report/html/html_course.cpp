#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostLanes = 64;

double end_of_attempt(const RunRecord& run, const AttemptRecord& attempt) {
  return attempt.end.value_or(std::max(run.seconds, attempt.begin));
}

// Returns the ranks of a node, such as "ranks 0-3".
std::string ranks_of(const NodeRecord& node) {
  if (node.workers == 0) return "no ranks";
  const std::string first = std::to_string(node.first_rank);
  if (node.workers == 1) return "rank " + first;
  return "ranks " + first + "-" + std::to_string(node.first_rank + node.workers - 1);
}

class Lanes {
 public:
  explicit Lanes(const RunRecord& run) : run_(run), length_(std::max(run.seconds, 1e-3)) {
    for (const AttemptRecord& attempt : run.attempts) length_ = std::max(length_, end_of_attempt(run, attempt));
  }

  std::string html() const {
    std::string html =
        "<div class=\"chart lanes\" tabindex=0 role=group aria-label=\"Attempts and nodes over time\">\n"
        "<div class=\"row axis\"><div class=label>time</div><div class=track>" +
        axis_html(length_) + "</div></div>\n";
    for (const AttemptRecord& attempt : run_.attempts) {
      if (static_cast<std::size_t>(attempt.number) >= kMostLanes && &attempt != &run_.attempts.back()) continue;
      html += lane("attempt " + std::to_string(attempt.number), bar(attempt, result_text(attempt)) + marks(attempt));
    }
    // The order is that of the ranks in the first attempt that the node took part in.
    std::vector<std::string> names;
    std::set<std::string> known;
    for (const AttemptRecord& attempt : run_.attempts) {
      for (const NodeRecord& node : attempt.nodes) {
        if (known.insert(node.name).second) names.push_back(node.name);
      }
    }
    std::size_t shown = 0;
    for (const std::string& name : names) {
      if (shown++ < kMostLanes) html += lane("node " + name, bars_of(name));
    }
    html += "</div>\n";
    if (names.size() > kMostLanes)
      html += "<p class=soft>" + std::to_string(names.size() - kMostLanes) + " more nodes are not shown.</p>\n";
    return html;
  }

 private:
  double percent(double time) const { return 100 * std::clamp(time / length_, 0.0, 1.0); }

  std::string bar(const AttemptRecord& attempt, const std::string& text) const {
    const double begin = percent(attempt.begin);
    const double width = std::max(percent(end_of_attempt(run_, attempt)) - begin, 0.2);
    return std::string("<span class=\"bar ") + class_of(result_of(attempt)) + "\" style=\"left:" + plain_number(begin) +
           "%;width:" + plain_number(width) + "%\" title=\"" + html_text(text) + "\">" + html_text(text) + "</span>";
  }

  std::string bars_of(const std::string& name) const {
    std::string html;
    for (const AttemptRecord& attempt : run_.attempts) {
      for (const NodeRecord& node : attempt.nodes) {
        if (node.name == name) html += bar(attempt, ranks_of(node));
      }
    }
    return html;
  }

  // Shows stalls and ends of workers that failed.
  std::string marks(const AttemptRecord& attempt) const {
    std::string html;
    const auto mark = [&](double time, const std::string& title) {
      html +=
          "<i class=mark style=\"left:" + plain_number(percent(time)) + "%\" title=\"" + html_text(title) + "\"></i>";
    };
    for (const StallRecord& stall : attempt.stalls) {
      mark(stall.time, seconds_text(stall.time) + ": " + (stall.text.empty() ? stall.state : stall.text.front()));
    }
    for (const WorkerRecord& worker : attempt.workers) {
      const bool is_culprit = std::ranges::find(attempt.culprits, worker.rank) != attempt.culprits.end();
      if (!is_culprit || !worker.ended) continue;
      mark(*worker.ended,
           seconds_text(*worker.ended) + ": rank " + std::to_string(worker.rank) + " ended, " + worker.end);
    }
    return html;
  }

  static std::string lane(const std::string& label, const std::string& content) {
    return "<div class=row><div class=label>" + html_text(label) + "</div><div class=track>" + content +
           "</div></div>\n";
  }

  const RunRecord& run_;
  double length_;
};

std::string attempts_table(const RunRecord& run) {
  static constexpr std::array<std::string_view, 7> kHeads = {"#attempt", "#start", "#duration",    "#ranks",
                                                             "#nodes",   "result", "what happened"};
  std::string html = "<div class=scroll><table class=sortable>\n" + table_head(kHeads) + "<tbody>\n";
  for (const AttemptRecord& attempt : run.attempts) {
    const double duration = end_of_attempt(run, attempt) - attempt.begin;
    std::vector<std::string> happened;
    if (!attempt.restored.empty()) {
      happened.push_back("begun " + seconds_text(attempt.since_failure) + " after the failure: " + attempt.restored);
    }
    if (!attempt.text.empty()) happened.push_back(attempt.text.front());
    if (!attempt.next.empty()) happened.push_back(attempt.next);
    html += "<tr>" + number_cell(attempt.number, std::to_string(attempt.number)) +
            number_cell(attempt.begin, seconds_text(attempt.begin)) + number_cell(duration, seconds_text(duration)) +
            number_cell(attempt.world_size, std::to_string(attempt.world_size)) +
            number_cell(static_cast<double>(attempt.nodes.size()), std::to_string(attempt.nodes.size())) +
            "<td><span class=\"pill " + class_of(result_of(attempt)) + "\">" + html_text(result_text(attempt)) +
            "</span></td>" + text_cell(base::join(happened, "; ")) + "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

struct CourseLine {
  double time = 0;
  std::string kind;
  std::string node;
  std::string text;
};

// Lists what was reported during the run, in the order of time.
std::vector<CourseLine> course_lines(const RunRecord& run) {
  std::vector<CourseLine> lines;
  for (const MessageRecord& message : run.messages)
    lines.push_back({message.time, message.level, message.node, message.text});
  for (const AttemptRecord& attempt : run.attempts) {
    for (const StallRecord& stall : attempt.stalls) {
      lines.push_back({stall.time, stall.state, "", stall.text.empty() ? "" : stall.text.front()});
    }
    for (const WorkerRecord& worker : attempt.workers) {
      if (worker.error.empty() || !worker.ended) continue;
      lines.push_back(
          {*worker.ended, "error", worker.node, "rank " + std::to_string(worker.rank) + ": " + worker.error});
    }
  }
  std::ranges::stable_sort(lines, {}, &CourseLine::time);
  return lines;
}

}  // namespace

std::string course_section(const RunRecord& run) {
  if (run.attempts.empty() && run.messages.empty()) return "";
  std::string html = "<section id=course class=card>\n<h2>Attempts and nodes</h2>\n";
  if (!run.attempts.empty()) html += Lanes(run).html() + attempts_table(run);
  const auto lines = course_lines(run);
  if (lines.empty()) return html + "</section>\n";
  constexpr std::size_t kMostLines = 500;
  static constexpr std::array<std::string_view, 4> kHeads = {"#time", "kind", "node", "message"};
  html += "<details" + std::string(lines.size() <= 12 ? " open" : "") + "><summary>" +
          base::counted(static_cast<std::int64_t>(lines.size()), "message") +
          "</summary>\n<div class=scroll><table>\n" + table_head(kHeads) + "<tbody>\n";
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
    html += "<tr>" + number_cell(lines[i].time, seconds_text(lines[i].time)) + text_cell(lines[i].kind) +
            text_cell(lines[i].node) + text_cell(lines[i].text) + "</tr>\n";
  }
  html += "</tbody></table></div>\n";
  if (lines.size() > kMostLines)
    html += "<p class=soft>" + std::to_string(lines.size() - kMostLines) + " more are not shown.</p>\n";
  return html + "</details>\n</section>\n";
}

}  // namespace ddp::launcher
