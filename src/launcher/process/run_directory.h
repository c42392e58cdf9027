// RunDirectory: the files of one run: what workers say about their errors, and the logs that were asked for.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/plan/output_plan.h"

namespace ddp::launcher {

class RunDirectory {
 public:
  // Chooses the name only. Temporary: a private directory under TMPDIR (default /tmp), removed with this
  // object, or at a later run's start if the launcher was killed: a living one holds a lock on it. Kept:
  // <log_dir>/<run id>_<random>. None: no directory at all, and the names of files are empty.
  RunDirectory(const RunFiles& files, const std::string& run_id);

  ~RunDirectory() { remove_if_temporary(); }

  // Makes it. The reason, if it cannot be made.
  std::optional<base::Failure> make();

  // Makes the directories of an attempt: attempt_<n>/<local rank>, as torchrun has them. A temporary one has none,
  // because they would take half of the time of 256 workers that end at once. The reason, if they cannot be made.
  std::optional<base::Failure> begin_attempt(int attempt, int workers);

  // A worker's file in the current attempt: "error.json" (TORCHELASTIC_ERROR_FILE), "stdout.log", "stderr.log". It is
  // attempt_<n>/<local rank>/<name>, or attempt_<n>_<local rank>_<name> in a temporary directory.
  std::string file(int local_rank, const std::string& name) const;

  // A file of all workers in the current attempt.
  std::string attempt_file(const std::string& name) const;

  // Empty without a directory.
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
