// Records the worker's error for the launcher.
#pragma once

#include <ddp/error.h>

#include <string>

namespace ddp::internal {

// Writes the error to the file named by TORCHELASTIC_ERROR_FILE, in torchelastic's format. If the file exists already,
// it stays, because the first error counts. `peer` is the rank of the job that is gone, missing or different, if one is
// known. Does nothing without that variable. Never throws.
void record_error(ErrorKind kind, const std::string& message, int peer = Error::kNobody) noexcept;

}  // namespace ddp::internal
