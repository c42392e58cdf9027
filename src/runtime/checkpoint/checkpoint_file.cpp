// A checkpoint file is replaced atomically. The bytes go to a temporary file in the same directory, which is flushed
// and renamed over the old file. Then the directory is flushed, so that the rename itself survives a power cut. A
// checksum in the metadata detects later damage on the disk.
#include "runtime/checkpoint/checkpoint_file.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/uninterrupted.h"
#include "base/unique_fd.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/group/agreement.h"

namespace ddp::internal {
namespace {

constexpr const char* kChecksum = "ddp.fnv1a64";

[[noreturn]] void fail(const std::string& action, const std::string& path, int error) {
  throw Error(ErrorKind::unavailable, "cannot " + action + " checkpoint " + path + ": " + std::strerror(error));
}

void write_all(int fd, const char* bytes, std::size_t count, const std::string& path) {
  while (count > 0) {
    const ssize_t written = base::uninterrupted([&] { return ::write(fd, bytes, count); });
    if (written < 0) fail("write", path, errno);
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
}

void read_all(int fd, char* bytes, std::size_t count, const std::string& path) {
  while (count > 0) {
    const ssize_t got = base::uninterrupted([&] { return ::read(fd, bytes, count); });
    if (got < 0) fail("read", path, errno);
    if (got == 0) throw Error(ErrorKind::corrupt, "checkpoint " + path + " is truncated");
    bytes += got;
    count -= static_cast<std::size_t>(got);
  }
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The temporary file is beside the final file, under a fixed name, so that the next save overwrites the rest of an
// interrupted save. It is locked, because two jobs with one path must not write into one file. It is removed unless it
// was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(path + ".tmp") {
    fd_.reset(base::uninterrupted(
        [this] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666); }));
    if (!fd_) fail("write", path, errno);
    // A file system without locks is no obstacle. Then another process is not noticed.
    const bool is_taken =
        base::uninterrupted([this] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK;
    // Between open and flock, its owner may have renamed the file. Then this process has opened the finished file.
    if (is_taken || !is_file_at(path_, fd_.get())) {
      path_.clear();
      throw Error(ErrorKind::unavailable, "cannot write checkpoint " + path + ": another process is writing it now");
    }
    if (base::uninterrupted([this] { return ::ftruncate(fd_.get(), 0); }) != 0) fail("write", path, errno);
  }
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_.get(); }

  void rename_to(const std::string& path) {
    if (base::uninterrupted([this] { return ::fsync(fd_.get()); }) != 0) fail("write", path, errno);
    if (base::uninterrupted([&] { return ::rename(path_.c_str(), path.c_str()); }) != 0) fail("replace", path, errno);
    path_.clear();
  }

 private:
  std::string path_;
  base::UniqueFd fd_;
};

const StoredTensor& find_tensor(const SafetensorsHeader& header, const Tensor& wanted, const std::string& path) {
  const auto stored = std::find_if(header.tensors.begin(), header.tensors.end(),
                                   [&](const StoredTensor& tensor) { return tensor.name == wanted.name; });
  if (stored == header.tensors.end()) {
    throw Error(ErrorKind::mismatch, "checkpoint " + path + " has no tensor '" + wanted.name + "'");
  }
  require_stored_as(describe(wanted.data.type, wanted.shape), describe(stored->type, stored->shape), wanted.name, path);
  return *stored;
}

}  // namespace

void require_stored_as(const std::string& wanted, const std::string& stored, const std::string& name,
                       const std::string& path) {
  if (stored == wanted) return;
  throw Error(ErrorKind::mismatch, "tensor '" + name + "' is " + stored + " in checkpoint " + path + " but " + wanted +
                                       " in this program. Was it written by a model of another size?");
}

bool checkpoint_file_exists(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT) fail("look for", path, errno);
  const std::string directory = directory_of(path);
  if (::stat(directory.c_str(), &status) == 0) return false;
  throw Error(ErrorKind::unavailable, "cannot look for checkpoint " + path + ": there is no directory " + directory);
}

void write_checkpoint_file(const std::string& name, std::span<const Tensor> tensors,
                           std::map<std::string, std::string> metadata) {
  const std::string path = base::behind_links(name);
  // The rename below would put a file into the place of /dev/null. (The rename fails if the path is a directory.)
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno == ELOOP) fail("write", path, errno);
  if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::invalid_argument,
                "cannot write checkpoint " + path +
                    ": it is not a regular file. Name a regular file or a path that does not exist.");
  }
  base::Fnv1a64 checksum;
  for (const Tensor& tensor : tensors) {
    checksum.update({static_cast<const std::byte*>(tensor.data.data), tensor.data.bytes()});
  }
  metadata[kChecksum] = base::hex64(checksum.value());
  const std::string header = encode_safetensors_header(tensors, metadata);
  TemporaryFile file(path);
  write_all(file.fd(), header.data(), header.size(), path);
  for (const Tensor& tensor : tensors) {
    write_all(file.fd(), static_cast<const char*>(tensor.data.data), tensor.data.bytes(), path);
  }
  file.rename_to(path);
  flush_directory_of(path);
}

bool is_file_at(const std::string& path, int fd) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

void flush_directory_of(const std::string& path) {
  const std::string name = directory_of(path);
  const base::UniqueFd directory(
      base::uninterrupted([&] { return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!directory || base::uninterrupted([&] { return ::fsync(directory.get()); }) == 0) return;
  // Some file systems cannot flush a directory (EINVAL). Nothing more can be done there.
  if (errno != EINVAL) fail("flush", path, errno);
}

ReadCheckpoint open_checkpoint_file(const std::string& path) {
  const base::UniqueFd file(
      base::uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::corrupt, "checkpoint " + path + " is damaged: it is not a regular file");
  }
  const auto file_bytes = static_cast<std::size_t>(status.st_size);
  try {
    std::string word(std::min<std::size_t>(8, file_bytes), '\0');
    read_all(file.get(), word.data(), word.size(), path);
    std::string json(safetensors_data_offset(word, file_bytes) - word.size(), '\0');
    read_all(file.get(), json.data(), json.size(), path);
    ReadCheckpoint result;
    result.data.resize(file_bytes - word.size() - json.size());
    read_all(file.get(), result.data.data(), result.data.size(), path);

    result.header = parse_safetensors_header(json, result.data.size());
    base::Fnv1a64 checksum;
    checksum.update(std::as_bytes(std::span(result.data)));
    const auto expected = result.header.metadata.find(kChecksum);
    if (expected != result.header.metadata.end() && expected->second != base::hex64(checksum.value())) {
      throw Error(ErrorKind::corrupt, "its checksum does not match its data");
    }
    result.header.metadata.erase(kChecksum);
    return result;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt) throw;
    throw Error(ErrorKind::corrupt, "checkpoint " + path + " is damaged: " + error.what());
  }
}

std::map<std::string, std::string> read_checkpoint_file(const std::string& path, std::span<const Tensor> tensors) {
  const ReadCheckpoint file = open_checkpoint_file(path);
  // All tensors are found before any tensor is filled.
  std::vector<const StoredTensor*> found;
  for (const Tensor& tensor : tensors) found.push_back(&find_tensor(file.header, tensor, path));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& stored = *found[i];
    if (stored.bytes > 0) std::memcpy(tensors[i].data.data, file.data.data() + stored.first, stored.bytes);
  }
  return file.header.metadata;
}

}  // namespace ddp::internal
