// The worker's last words, for the launcher.
#pragma once

#include <ddp/error.h>

#include <string>

namespace ddp::internal {

// Writes the error to the file named by TORCHELASTIC_ERROR_FILE, in torchelastic's format, unless there is one already:
// the first error is the one that counts. `peer`: the rank of the job that is gone, missing or different, if one is
// known. Does nothing without that variable; never throws.
void record_error(ErrorKind kind, const std::string& message, int peer = Error::kNobody) noexcept;

}  // namespace ddp::internal
