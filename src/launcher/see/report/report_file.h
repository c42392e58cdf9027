// Writes the files that other programs read after a job has run: the summary and the dumps.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "launcher/see/report/own_document.h"

namespace ddp::launcher {

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
// behind.
std::optional<base::Failure> check_report(const std::string& path, const std::string& what, Document document);

}  // namespace ddp::launcher
