// PrivateDirectory is a temporary directory that only this user may enter. A running launcher holds a lock on it. If
// the launcher was killed, a later one removes the directory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

// A launcher locks a directory to show that it is in use: its temporary files, or the cgroup of its workers. If another
// launcher gets the lock, the owner is dead, so the other launcher removes the leftovers. This function opens the
// directory and locks it for this process; programs that it starts do not inherit the lock. Returns no
// descriptor, and sets errno, if that fails: EWOULDBLOCK if another process has the lock, ENOENT if the directory is
// gone. While the lock is held, `path` names the directory that is locked, and not one that was made there meanwhile.
base::UniqueFd lock_directory(const std::string& path);

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

}  // namespace ddp::launcher
