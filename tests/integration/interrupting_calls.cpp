// A library for LD_PRELOAD. Every second call of these functions of a thread fails with EINTR, as on a network file
// system whose server reports each signal (FUSE), or in a program whose handlers interrupt calls.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace {

bool is_interrupted() {
  thread_local bool last = false;
  last = !last;
  if (last) errno = EINTR;
  return last;
}

// The kernel does not interrupt calls on memory without a name.
bool has_name(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_nlink > 0;
}

template <typename Function>
Function next(Function /*type*/, const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return is_interrupted() ? -1 : next(&open, "open")(path, flags, mode);
}
int fsync(int fd) {
  return is_interrupted() ? -1 : next(&fsync, "fsync")(fd);
}
int ftruncate(int fd, off_t length) noexcept {
  return has_name(fd) && is_interrupted() ? -1 : next(&ftruncate, "ftruncate")(fd, length);
}
int flock(int fd, int operation) noexcept {
  return is_interrupted() ? -1 : next(&flock, "flock")(fd, operation);
}
int rename(const char* from, const char* to) noexcept {
  return is_interrupted() ? -1 : next(&rename, "rename")(from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return is_interrupted() ? -1 : next(&mkdir, "mkdir")(path, mode);
}
int connect(int fd, const sockaddr* address, socklen_t length) {
  return is_interrupted() ? -1 : next(&connect, "connect")(fd, address, length);
}

}  // extern "C"
