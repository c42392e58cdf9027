// Writes to files that may be a FIFO, a terminal, or the launcher's own output.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

// Writes all of `text`, or returns false with the reason in errno. `patience` is the time for which a reader may accept
// nothing.
bool write_all(int fd, std::string_view text, std::chrono::milliseconds patience);
// Makes a small file that only this user can read. Returns false, with the reason in errno, if that fails, also if there
// is one of this name.
bool write_file(const std::string& path, std::string_view text);

// Returns a failure such as "cannot write --summary=x: No space left on device.", from errno.
base::Failure write_failure(const std::string& what);

// Returns a descriptor of the regular file that is the launcher's standard output or error (/dev/stderr, or the file's
// own name). Returns an empty descriptor if the file is neither. Such a file cannot be replaced. It must be written
// through this very descriptor, because later output would overwrite it.
base::UniqueFd own_output(const struct stat& status);

inline constexpr mode_t kFileMode = 0666;  // reduced by the umask

}  // namespace ddp::launcher
