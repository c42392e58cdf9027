// RunDirectory holds the files of one run: the error reports of the workers, the logs that the user requested, and the
// sockets of the workers' PyTorch.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/start/plan/output_plan.h"

namespace ddp::launcher {

// A launcher locks a directory to show that it is in use: its temporary files, or the cgroup of its workers. If another
// launcher gets the lock, the owner is dead, so the other launcher removes the leftovers. This function opens the
// directory and locks it for this process; programs that it starts do not inherit the lock. Returns no
// descriptor, and sets errno, if that fails: EWOULDBLOCK if another process has the lock, ENOENT if the directory is
// gone. While the lock is held, `path` names the directory that is locked, and not one that was made there meanwhile.
base::UniqueFd lock_directory(const std::string& path);

// PrivateDirectory is a temporary directory that only this user may enter. A running launcher holds a lock on it. If
// the launcher was killed, a later one removes the directory.
class PrivateDirectory {
 public:
  // Only chooses the name. The directory will be in the first of these roots that can be used. It is removed with this
  // object, or with a copy of the object in another process.
  explicit PrivateDirectory(std::vector<std::string> roots);
  ~PrivateDirectory() { remove(); }
  PrivateDirectory(PrivateDirectory&& other) = default;

  // Returns why a directory at this path is not suitable.
  using Check = std::function<std::optional<base::Failure>(const std::string& path)>;

  // Creates the directory. Returns the reasons, one for each root, if that fails.
  std::optional<base::Failure> make(const Check& check = nullptr);

  // Returns the path, or "" if the directory was not made.
  const std::string& path() const { return path_; }
  void remove();

 private:
  std::optional<base::Failure> make_in(const std::string& root);

  std::vector<std::string> roots_;
  std::string name_;
  std::string path_;
  base::UniqueFd lock_;
};

// Returns TMPDIR, or /tmp, as an absolute path, because a worker may change its directory.
std::string temporary_root();

// Returns the roots for a directory whose path must be short.
std::vector<std::string> roots_of_sockets();

// Returns why this directory cannot hold a socket whose name has `name_length` bytes. Not every file system can.
std::optional<base::Failure> check_for_sockets(const std::string& path, std::size_t name_length);

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
