// Writing to files that may be a FIFO, a terminal, or the launcher's own output.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

// Writes all of it, or returns false with the reason in errno. `patience`: how long a reader may take nothing.
bool write_all(int fd, std::string_view text, std::chrono::milliseconds patience);

// "cannot write --summary=x: No space left on device.", from errno.
base::Failure write_failure(const std::string& what);

// A descriptor of the regular file that is the launcher's standard output or error (/dev/stderr, or by its own name):
// it cannot be replaced, and must be written through the very descriptor, because later output would overwrite it.
// Empty if the file is neither.
base::UniqueFd own_output(const struct stat& status);

inline constexpr mode_t kFileMode = 0666;  // less the umask

}  // namespace ddp::launcher
