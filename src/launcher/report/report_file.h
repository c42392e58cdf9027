// Files that machines read after a job has run: the summary and the dumps.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace ddp::launcher {

// Replaces the file by `text`: readers see the old one or the whole new one, which has the old one's permissions. The
// reason, if that cannot be done; then the old one is untouched. A symbolic link to a file stays one. What exists and
// is no ordinary file (a FIFO with a reader), or is our own output (/dev/stderr), is written to as it is; one that
// takes nothing for limits::kConsoleStall is given up.
std::optional<base::Failure> write_report(const std::string& path, const std::string& text, const std::string& what);

// Whether write_report() could do that now, as far as one can know without doing it. Leaves nothing behind.
std::optional<base::Failure> check_report(const std::string& path, const std::string& what);

}  // namespace ddp::launcher
