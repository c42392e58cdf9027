#include "launcher/run/process/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace ddp::launcher {

base::UniqueFd lock_directory(const std::string& path) {
  base::UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock) return {};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    lock.reset();
    errno = error;
    return {};
  }
  // Between the two calls, another launcher may have removed the directory, and its owner may have created it again.
  struct stat locked {};
  struct stat named {};
  const bool is_same = ::fstat(lock.get(), &locked) == 0 && ::lstat(path.c_str(), &named) == 0 &&
                       locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
  if (is_same) return lock;
  lock.reset();
  errno = ENOENT;
  return {};
}

}  // namespace ddp::launcher
