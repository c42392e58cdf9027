// Builds the sections of a report. Each function returns HTML of one section, or an empty string if there is nothing to
// show. The functions are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/see/report/report_data.h"

namespace ddp::launcher {

// Describes the result of a run or of an attempt in one word, which is also a class of the style.
enum class ResultKind { success, failure, stopped, unknown };
const char* class_of(ResultKind kind);  // "good", "bad", "warn" or "soft"
ResultKind result_of(const RunRecord& run);
ResultKind result_of(const AttemptRecord& attempt);
std::string result_text(const RunRecord& run);
std::string result_text(const AttemptRecord& attempt);

// Returns the last attempt whose history is known, or null.
const AttemptRecord* last_with_history(const RunRecord& run);  // html_tables.cpp
// Returns the time in which the rank had not ended.
double seconds_of(const RankHistory& rank);  // html_tables.cpp

// Returns what the user started, such as "train.py".
std::string program_of(const RunRecord& run);

std::string verdict_section(const RunRecord& run);   // html_verdict.cpp
std::string missing_section(const RunRecord& run);   // html_verdict.cpp
std::string course_section(const RunRecord& run);    // html_course.cpp: attempts and nodes on a time line, events
std::string strips_section(const RunRecord& run);    // html_strips.cpp: what each rank did
std::string training_section(const RunRecord& run);  // html_training.cpp: loss, steps per second and memory over time
std::string waits_section(const RunRecord& run);     // html_strips.cpp: for which ranks others waited
std::string ranks_section(const RunRecord& run);     // html_tables.cpp: the ranks in numbers
std::string collectives_section(const RunRecord& run);  // html_tables.cpp
std::string environment_section(const RunRecord& run);  // html_report.cpp
std::string stacks_section(const RunRecord& run);       // html_report.cpp
std::string last_lines_section(const RunRecord& run);   // html_report.cpp
std::string start_section(const RunRecord& run);        // html_report.cpp

extern const char* const kReportStyle;   // html_style.cpp
extern const char* const kReportScript;  // html_script.cpp

// Represents one curve of a chart. Curves that share a chart need a label.
struct ChartLine {
  const Curve* curve;
  double column_seconds;
  std::string label;
};
// Returns a chart of curves with the same name, or an empty string if nothing is known. `lines` is not empty.
std::string curve_chart(std::span<const ChartLine> lines);       // html_training.cpp
std::string curve_number(std::string_view name, double number);  // html_training.cpp

// Returns the median of what is known.
std::optional<double> median_of(const Curve::Points& points);  // html_training.cpp

// Returns the median rate while steps were done: a job may have hung, or ended with something else.
std::optional<double> usual_rate(const Curve& steps);  // html_training.cpp

// Compares two runs: their results, figures, curves and collectives.
std::string comparison_sections(const RunRecord& a, const RunRecord& b);  // html_comparison.cpp

// Returns the ticks of a time axis of this length as HTML, at positions in percent. A narrow axis has space for fewer.
std::string axis_html(double seconds, bool is_narrow = false);  // html_strips.cpp

}  // namespace ddp::launcher
