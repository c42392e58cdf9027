#include "launcher/run/job/witness_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/hash.h"
#include "base/printable.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

// Other users share the directory, too.
constexpr mode_t kReadable = 0644;
constexpr const char* kIdentity = "ddplaunch-witness";

base::Failure failure(const std::string& what, int error) {
  return {what + ": " + std::strerror(error)};
}

// Writes a new file, and waits until the file system has accepted it.
std::optional<base::Failure> write_new(const std::string& path, std::string_view text) {
  const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kReadable));
  if (!file) return failure("cannot create a file there", errno);
  errno = ENOSPC;  // if not all was written
  const bool is_written = ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                          ::fchmod(file.get(), kReadable) == 0 && ::fsync(file.get()) == 0;
  if (is_written) return std::nullopt;
  const int error = errno;
  ::unlink(path.c_str());
  return failure("cannot write a file there", error);
}

base::Result<std::string> read_existing(const std::string& path) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return failure("cannot read " + path, errno);
  std::array<char, 1024> buffer{};
  const ssize_t length = ::read(file.get(), buffer.data(), buffer.size());
  if (length < 0) return failure("cannot read " + path, errno);
  if (length == 0) return base::Failure{path + " is empty"};
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

// Returns the text of the file of this name. If there is none, it is made with this text.
base::Result<std::string> first_text(const std::string& directory, const std::string& name, const std::string& text) {
  const std::string path = directory + "/" + name;
  const std::string own = directory + "/." + name + "." + base::hex64(base::random64());
  if (auto why = write_new(own, text)) return *why;
  const bool is_linked = ::link(own.c_str(), path.c_str()) == 0;
  const int error = errno;
  // On NFS, a call may fail because its answer was lost.
  struct stat status {};
  const bool is_first = is_linked || (::stat(own.c_str(), &status) == 0 && status.st_nlink == 2);
  ::unlink(own.c_str());
  if (is_first) return text;
  if (error != EEXIST) return failure("cannot make a hard link there", error);
  return read_existing(path);
}

}  // namespace

base::Result<std::string> identify_witness(const std::string& directory) {
  auto text = first_text(directory, kIdentity, base::hex64(base::random64()));
  if (text) return base::printable(text.value(), limits::kShownName);
  return base::Failure{"--witness=" + directory + " cannot be used: " + text.error().message +
                       ". Give an existing directory on a file system that all nodes share, and in which this user "
                       "may create files and hard links."};
}

std::string claim_text(const std::string& host) {
  return host + " (pid " + std::to_string(::getpid()) + ")\n" + base::hex64(base::random64()) + "\n";
}

ClaimAnswer claim(const std::string& directory, const std::string& name, const std::string& text) {
  const auto first = first_text(directory, name, text);
  if (!first) return {ClaimAnswer::Kind::failed, first.error().message};
  if (first.value() == text) return {ClaimAnswer::Kind::granted, ""};
  const std::string line = first.value().substr(0, first.value().find('\n'));
  return {ClaimAnswer::Kind::taken, base::printable(line, limits::kShownName)};
}

}  // namespace ddp::launcher
