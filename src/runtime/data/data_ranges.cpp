#include <ddp/data_ranges.h>
#include <ddp/error.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/text.h"
#include "base/uninterrupted.h"
#include "base/unique_fd.h"

namespace ddp {
namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorKind::invalid_argument, message);
}

void require_rank(const char* function, int rank, int size) {
  require(size > 0 && rank >= 0 && rank < size,
          std::string(function) + ": rank " + std::to_string(rank) + " is not in a world of " + std::to_string(size));
}

void require_whole_records(const std::string& what, std::uint64_t bytes, std::uint64_t record_bytes) {
  require(record_bytes > 0, what + ": a record must have 1 byte or more");
  require(bytes % record_bytes == 0, what + ": " + std::to_string(bytes) +
                                         " bytes are not a multiple of the record size " +
                                         std::to_string(record_bytes) + "; " + std::to_string(bytes % record_bytes) +
                                         " left over. Check record_bytes, and that the file is complete.");
}

// Represents a file in which the beginnings of lines are searched.
class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path) {
    // The file is opened non-blocking, so that a pipe is refused below instead of being waited for here. The flag has
    // no effect on a regular file.
    fd_.reset(base::uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
    struct stat status {};
    if (!fd_ || ::fstat(fd_.get(), &status) != 0) fail(std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail("it is not a regular file");
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::uint64_t bytes() const { return bytes_; }

  // Returns the start of the first line that begins at `position` or later, or the file's end if there is none.
  std::uint64_t line_at_or_after(std::uint64_t position) const {
    if (position == 0) return 0;
    std::array<char, 16384> block;
    for (std::uint64_t at = position - 1; at < bytes_;) {
      const std::size_t count = read(at, block.data(), std::min<std::uint64_t>(block.size(), bytes_ - at));
      const void* found = std::memchr(block.data(), '\n', count);
      if (found != nullptr) return at + static_cast<std::uint64_t>(static_cast<const char*>(found) - block.data()) + 1;
      at += count;
    }
    return bytes_;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(ErrorKind::unavailable, "cannot divide the lines of " + path_ + ": " + reason);
  }

  std::size_t read(std::uint64_t at, char* block, std::size_t count) const {
    while (true) {
      const ssize_t got = ::pread(fd_.get(), block, count, static_cast<off_t>(at));
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) fail("it was truncated while it was read");
      if (errno != EINTR) fail(std::strerror(errno));
    }
  }

  const std::string path_;
  base::UniqueFd fd_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

ByteRange byte_range(std::uint64_t bytes, int rank, int size, std::uint64_t record_bytes) {
  require_rank("byte_range", rank, size);
  require_whole_records("byte_range", bytes, record_bytes);
  const auto ranks = static_cast<std::uint64_t>(size);
  const std::uint64_t records = bytes / record_bytes;
  // If the ranks do not divide the records evenly, the first ranks have one record more.
  const auto first_of = [&](std::uint64_t r) {
    return (r * (records / ranks) + std::min(r, records % ranks)) * record_bytes;
  };
  const auto own = static_cast<std::uint64_t>(rank);
  return {.first = first_of(own), .end = first_of(own + 1)};
}

ByteRange line_range(const std::string& path, int rank, int size) {
  require_rank("line_range", rank, size);
  const TextFile file(path);
  const ByteRange share = byte_range(file.bytes(), rank, size);
  const std::uint64_t first = file.line_at_or_after(share.first);
  // If a line is longer than the share, no line may begin in it. Then the range is empty, so that the line is not read
  // again.
  return {.first = first, .end = first >= share.end ? first : file.line_at_or_after(share.end)};
}

std::vector<std::string> whole_files(std::span<const FileSize> files, int rank, int size) {
  require_rank("whole_files", rank, size);
  require(files.size() >= static_cast<std::size_t>(size),
          base::counted(static_cast<std::int64_t>(files.size()), "file") + " for " + base::counted(size, "rank") +
              " leave some ranks without a file. Use more files, fewer ranks, or file_pieces, which divides files.");
  std::vector<FileSize> largest_first(files.begin(), files.end());
  std::ranges::sort(largest_first, [](const FileSize& a, const FileSize& b) {
    return std::tie(b.bytes, a.name) < std::tie(a.bytes, b.name);
  });
  // If the bytes are equal, the numbers of files decide. So no rank gets a second file before all ranks have one, even
  // if files are empty.
  struct Load {
    std::uint64_t bytes = 0;
    std::size_t files = 0;
  };
  std::vector<Load> loads(static_cast<std::size_t>(size));
  std::vector<std::string> own;
  for (const FileSize& file : largest_first) {
    const auto least = std::ranges::min_element(
        loads, [](const Load& a, const Load& b) { return std::tie(a.bytes, a.files) < std::tie(b.bytes, b.files); });
    least->bytes += file.bytes;
    ++least->files;
    if (least - loads.begin() == rank) own.push_back(file.name);
  }
  std::ranges::sort(own);
  return own;
}

std::vector<FilePiece> file_pieces(std::span<const FileSize> files, int rank, int size, std::uint64_t record_bytes) {
  require_rank("file_pieces", rank, size);
  std::uint64_t total = 0;
  for (const FileSize& file : files) {
    require_whole_records("file_pieces: " + file.name, file.bytes, record_bytes);
    total += file.bytes;
  }
  const ByteRange share = byte_range(total, rank, size, record_bytes);
  std::vector<FilePiece> own;
  std::uint64_t begin = 0;  // where the file begins in the concatenation of all files
  for (const FileSize& file : files) {
    const std::uint64_t first = std::max(share.first, begin);
    const std::uint64_t end = std::min(share.end, begin + file.bytes);
    if (first < end) own.push_back({file.name, {.first = first - begin, .end = end - begin}});
    begin += file.bytes;
  }
  return own;
}

}  // namespace ddp
