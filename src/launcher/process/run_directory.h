// RunDirectory: the temporary files of one run, removed with it, or at a later run's start if the launcher was killed.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

class RunDirectory {
 public:
  // Makes a private directory under TMPDIR (default /tmp) with one folder a local rank. Removes those that killed
  // launchers of this user have left: a living one holds a lock on its own.
  static base::Result<std::unique_ptr<RunDirectory>> create(int workers);

  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // Where the worker may leave its error (TORCHELASTIC_ERROR_FILE), in torchrun's layout: attempt_0/<local rank>.
  std::string error_file(int local_rank) const;

 private:
  RunDirectory(std::string path, base::UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  base::UniqueFd lock_;
};

}  // namespace ddp::launcher
