// RunDirectory: the temporary files of one run, removed with it.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace ddp::launcher {

class RunDirectory {
 public:
  // Makes a private directory under TMPDIR (default /tmp) with one folder a local rank.
  static base::Result<std::unique_ptr<RunDirectory>> create(int workers);

  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // Where the worker may leave its error (TORCHELASTIC_ERROR_FILE), in torchrun's layout: attempt_0/<local rank>.
  std::string error_file(int local_rank) const;

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace ddp::launcher
