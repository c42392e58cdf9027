// Writes the files that other programs read after a job has run, such as the summary, and recognizes such files, so
// that no other file is overwritten.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ddp::launcher {

enum class Document : std::uint8_t {
  any,  // written only where the launcher or its user expects no other file
  summary,
  report,
  trace,
  port_file,
  event_log
};

// This line identifies a report.
inline constexpr std::string_view kReportMark = "<meta name=generator content=ddplaunch>";

// `head` is the beginning of a file. Returns whether ddplaunch has written such a document, perhaps only a part of it.
// An empty file is no document, but nothing is lost with it, so the result is true. A compressed head is decompressed.
bool is_own_document(Document document, std::string_view head);

// Replaces the file by `text`: readers see either the old file or the whole new one, which has the old one's
// permissions. Returns the reason if that fails; the old file is then untouched. A symbolic link to a file stays a
// link. A target that is not a regular file (a FIFO with a reader), or that is the launcher's own output (/dev/stderr),
// is written to directly. Writing is given up if it accepts nothing for limits::kConsoleStall. A regular file that is
// not such a document stays as it is.
std::optional<base::Failure> write_report(const std::string& path, const std::string& text, const std::string& what,
                                          Document document);

struct OutputFile {
  std::string option;  // such as "--report"
  std::string path;    // empty if there is no such file
  bool is_appended = false;
};

// Returns which option would overwrite the file of another one. The launcher's own output, and what is not a regular
// file, may be named by several options.
std::optional<base::Failure> check_distinct(std::span<const OutputFile> files);

// Returns why events must not be appended to a file. A regular file that is not an event log stays as it is, unless the
// user mixes events with the launcher's own lines on purpose.
std::optional<base::Failure> check_event_log(const OutputFile& event_log, const std::string& launcher_log);

// Returns why write_report() could not do that now, as far as this can be known without doing it. Leaves nothing
// behind. Does nothing if the path is empty: there is no such file.
std::optional<base::Failure> check_report(const std::string& path, const std::string& what, Document document);

}  // namespace ddp::launcher
