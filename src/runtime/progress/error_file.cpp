#include "runtime/progress/error_file.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "base/unique_fd.h"
#include "wire/error_file.h"
#include "wire/worker_env.h"

namespace ddp::internal {

void record_error(ErrorKind kind, const std::string& message, int peer) noexcept {
  try {
    const char* path = std::getenv(wire::env::kErrorFile);  // NOLINT(concurrency-mt-unsafe)
    if (path == nullptr || *path == '\0') return;
    const base::UniqueFd file(::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file) return;
    nlohmann::json record = {{"message",
                              {{"message", "ddp::Error (" + std::string(to_string(kind)) + "): " + message},
                               {"extraInfo",
                                {{"py_callstack", ""},
                                 {"timestamp", std::to_string(std::time(nullptr))},
                                 {wire::kErrorKind, to_string(kind)}}}}}};
    if (peer != Error::kNobody) record["message"]["extraInfo"][wire::kErrorPeer] = peer;
    // Bytes that are not UTF-8 are replaced, because a path in the message may hold any bytes.
    const std::string text = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    [[maybe_unused]] const ssize_t written = ::write(file.get(), text.data(), text.size());
  } catch (...) {  // NOLINT(bugprone-empty-catch): the record is optional
  }
}

}  // namespace ddp::internal
