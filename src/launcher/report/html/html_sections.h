// Builds the sections of a report. Each function returns HTML of one section, or an empty string if there is nothing to
// show. The functions are pure.
#pragma once

#include <string>

#include "launcher/report/report_data.h"

namespace ddp::launcher {

// Describes the result of a run or of an attempt in one word, which is also a class of the style.
enum class ResultKind { success, failure, stopped, unknown };
const char* class_of(ResultKind kind);  // "good", "bad", "warn" or "soft"
ResultKind result_of(const RunRecord& run);
ResultKind result_of(const AttemptRecord& attempt);
std::string result_text(const RunRecord& run);
std::string result_text(const AttemptRecord& attempt);

// Returns what the user started, such as "train.py".
std::string program_of(const RunRecord& run);

std::string verdict_section(const RunRecord& run);      // html_verdict.cpp
std::string missing_section(const RunRecord& run);      // html_verdict.cpp
std::string course_section(const RunRecord& run);       // html_course.cpp: attempts and nodes on a time line, events
std::string strips_section(const RunRecord& run);       // html_strips.cpp: what each rank did
std::string waits_section(const RunRecord& run);        // html_waits.cpp: for which ranks others waited
std::string ranks_section(const RunRecord& run);        // html_tables.cpp: the ranks in numbers
std::string collectives_section(const RunRecord& run);  // html_tables.cpp
std::string environment_section(const RunRecord& run);  // html_details.cpp
std::string stacks_section(const RunRecord& run);       // html_details.cpp
std::string last_lines_section(const RunRecord& run);   // html_details.cpp
std::string start_section(const RunRecord& run);        // html_details.cpp

extern const char* const kReportStyle;   // html_style.cpp
extern const char* const kReportScript;  // html_script.cpp

// Returns the ticks of a time axis of this length as HTML, at positions in percent.
std::string axis_html(double seconds);  // html_strips.cpp

}  // namespace ddp::launcher
