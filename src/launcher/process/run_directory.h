// RunDirectory holds the files of one run: the error reports of the workers, and the logs that the user requested.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/plan/output_plan.h"

namespace ddp::launcher {

class RunDirectory {
 public:
  // Only chooses the name. A temporary directory is a private one under TMPDIR (default /tmp), and is removed with this
  // object. If the launcher was killed, a later run removes it: a running launcher holds a lock on it. A kept directory
  // is <log_dir>/<run id>_<random>. With Kind::none there is no directory, and the names of files are empty.
  RunDirectory(const RunFiles& files, const std::string& run_id);

  ~RunDirectory() { remove_if_temporary(); }

  // Creates the directory. Returns the reason if that fails.
  std::optional<base::Failure> make();

  // Creates the directories of an attempt: attempt_<n>/<local rank>, as torchrun names them. A temporary directory has
  // none, because they would take half of the time of 256 workers that end at once. Returns the reason if that fails.
  std::optional<base::Failure> begin_attempt(int attempt, int workers);

  // Returns the path of a worker's file in the current attempt: "error.json" (TORCHELASTIC_ERROR_FILE), "stdout.log",
  // "stderr.log". It is attempt_<n>/<local rank>/<name>, or attempt_<n>_<local rank>_<name> in a temporary directory.
  std::string file(int local_rank, const std::string& name) const;

  // Returns the path of a file of all workers in the current attempt.
  std::string attempt_file(const std::string& name) const;

  // Returns the path, which is empty if there is no directory.
  const std::string& path() const { return path_; }
  bool temporary() const { return temporary_; }
  void remove_if_temporary();

 private:
  std::optional<base::Failure> make_temporary();
  char separator() const { return temporary_ ? '_' : '/'; }

  std::string path_;
  bool temporary_ = false;
  base::UniqueFd lock_;
  int attempt_ = 0;
};

}  // namespace ddp::launcher
