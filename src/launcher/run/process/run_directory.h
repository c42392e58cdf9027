// RunDirectory holds the files of one run: the error reports of the workers, the logs that the user requested, and the
// sockets of the workers' PyTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/run/process/private_directory.h"
#include "launcher/start/plan/output_plan.h"

namespace ddp::launcher {

class RunDirectory {
 public:
  // Only chooses the names. A temporary directory is a private one under TMPDIR (default /tmp). A kept directory is
  // <log_dir>/<run id>_<random>. With Kind::none there is no directory, and the names of files are empty. Sockets are
  // in the temporary directory if it can hold them, or else in a private directory in one of `socket_roots`. Private
  // directories are removed with this object. Without `socket_roots` there are no sockets.
  RunDirectory(const RunFiles& files, const std::string& run_id, std::vector<std::string> socket_roots = {});

  // Creates the directory. Returns the reason if that fails.
  std::optional<base::Failure> make();

  // After make(), returns why there is no place for sockets, if there should be one.
  const std::optional<base::Failure>& socket_failure() const { return socket_failure_; }

  // Creates the directories of an attempt: attempt_<n>/<local rank>, as torchrun names them. A temporary directory has
  // none, because they would take half of the time of 256 workers that end at once. Returns the reason if that fails.
  std::optional<base::Failure> begin_attempt(int attempt, int workers);

  // Returns the path of a worker's file in the current attempt: "error.json" (TORCHELASTIC_ERROR_FILE), "stdout.log",
  // "stderr.log". It is attempt_<n>/<local rank>/<name>, or attempt_<n>_<local rank>_<name> in a temporary directory.
  std::string file(int local_rank, const std::string& name) const;

  // Returns the path of a file of all workers in the current attempt.
  std::string attempt_file(const std::string& name) const;

  // Returns the prefix of a worker's files for PyTorch in the current attempt, or "" if there is no place for them.
  std::string torch_file(int local_rank) const;

  // Returns the path, which is empty if there is no directory.
  const std::string& path() const { return path_; }
  bool temporary() const { return temporary_; }
  void remove_if_temporary();

 private:
  void find_place_for_sockets();
  char separator() const { return temporary_ ? '_' : '/'; }

  std::string path_;
  bool temporary_ = false;
  std::optional<PrivateDirectory> private_;
  std::optional<PrivateDirectory> sockets_;
  std::string socket_path_;
  std::optional<base::Failure> socket_failure_;
  int attempt_ = 0;
};

}  // namespace ddp::launcher
