// OpenDocument is a file that grows while a job runs. Its end is written again with each addition, so that the file is
// a complete document at any time, even if the launcher is killed. A file whose name ends in .gz is compressed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

class OpenDocument {
 public:
  // Empties the file, or creates it. `what` names it in messages, such as "--trace=trace.json". A target that is not a
  // regular file (a FIFO with a reader), or that is the launcher's own output, gets its end only from close().
  static base::Result<std::unique_ptr<OpenDocument>> open(const std::string& path, const std::string& what);
  ~OpenDocument();
  OpenDocument(const OpenDocument&) = delete;
  OpenDocument& operator=(const OpenDocument&) = delete;

  // Adds `text`, and `ending` after it, which the next call replaces. Returns the reason if that fails, for example
  // because the disk is full, or because another job writes to the file. The file then stays as it was, and must not be
  // written to again.
  std::optional<base::Failure> add(std::string_view text, std::string_view ending);
  std::optional<base::Failure> close(std::string_view text, std::string_view ending);

  // Returns how many bytes the file has.
  std::uint64_t size() const { return body_ + ending_.size(); }

 private:
  class Compression;

  OpenDocument(std::string what, base::UniqueFd file, bool is_regular, bool is_compressed);
  std::optional<base::Failure> write(const std::string& body, std::string ending);
  void restore() const;

  const std::string what_;
  const base::UniqueFd file_;
  const bool is_regular_;
  std::unique_ptr<Compression> compression_;  // null if the file is not compressed
  std::uint64_t body_ = 0;                    // bytes before the end
  std::string ending_;                        // bytes of the end
};

}  // namespace ddp::launcher
