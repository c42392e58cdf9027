#include "launcher/see/report/open_document.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/uninterrupted.h"
#include "launcher/limits.h"
#include "launcher/start/log/file_output.h"

namespace ddp::launcher {
namespace {

// Writes all of `text` at this place of a regular file, or returns false with the reason in errno.
bool write_at(int fd, std::string_view text, std::uint64_t at) {
  while (!text.empty()) {
    const ssize_t count = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENOSPC;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
  return true;
}

}  // namespace

// Compresses a text of which an end is known at any time.
class OpenDocument::Compression {
 public:
  Compression() {
    constexpr int kGzip = 16;  // added to the size of the window
    is_usable_ = ::deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzip, MAX_MEM_LEVEL,
                                Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Compression() { ::deflateEnd(&stream_); }
  Compression(const Compression&) = delete;
  Compression& operator=(const Compression&) = delete;

  bool is_usable() const { return is_usable_; }
  std::string add(std::string_view text) { return run(stream_, text, Z_NO_FLUSH); }
  // Returns the end of the compressed text if `ending` is the last part of it. A copy of the state makes it, so that
  // more text can follow instead. Returns std::nullopt if there is no memory.
  std::optional<std::string> end(std::string_view ending) {
    z_stream copy{};
    if (::deflateCopy(&copy, &stream_) != Z_OK) return std::nullopt;
    std::string bytes = run(copy, ending, Z_FINISH);
    ::deflateEnd(&copy);
    return bytes;
  }

 private:
  static std::string run(z_stream& stream, std::string_view text, int flush) {
    std::string bytes;
    std::array<char, std::size_t{64} << 10> buffer;
    // The library changes no input; its interface is older than const.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(std::min<std::size_t>(text.size(), std::numeric_limits<uInt>::max()));
    do {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      ::deflate(&stream, flush);
      bytes.append(buffer.data(), buffer.size() - stream.avail_out);
    } while (stream.avail_out == 0);
    return bytes;
  }

  z_stream stream_{};
  bool is_usable_ = false;
};

base::Result<std::unique_ptr<OpenDocument>> OpenDocument::open(const std::string& path, const std::string& what) {
  struct stat status {};
  base::UniqueFd file;
  bool is_regular = false;
  if (::stat(path.c_str(), &status) == 0) file = own_output(status);
  if (!file) {
    // The file is opened non-blocking: a FIFO without a reader must not block the job.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    file.reset(base::uninterrupted([&] { return ::open(path.c_str(), kFlags, kFileMode); }));
    if (!file || ::fstat(file.get(), &status) != 0) return write_failure(what);
    is_regular = S_ISREG(status.st_mode);
    if (is_regular && ::ftruncate(file.get(), 0) != 0) return write_failure(what);
  }
  std::unique_ptr<OpenDocument> document(new OpenDocument(what, std::move(file), is_regular, path.ends_with(".gz")));
  if (document->compression_ != nullptr && !document->compression_->is_usable()) {
    errno = ENOMEM;
    return write_failure(what);
  }
  return document;
}

OpenDocument::OpenDocument(std::string what, base::UniqueFd file, bool is_regular, bool is_compressed)
    : what_(std::move(what)),
      file_(std::move(file)),
      is_regular_(is_regular),
      compression_(is_compressed ? std::make_unique<Compression>() : nullptr) {}

OpenDocument::~OpenDocument() = default;

std::optional<base::Failure> OpenDocument::add(std::string_view text, std::string_view ending) {
  if (compression_ == nullptr) return write(std::string(text), is_regular_ ? std::string(ending) : "");
  const std::string body = compression_->add(text);
  if (!is_regular_) return write(body, "");
  auto end = compression_->end(ending);
  if (end) return write(body, std::move(*end));
  errno = ENOMEM;
  return write_failure(what_);
}

std::optional<base::Failure> OpenDocument::close(std::string_view text, std::string_view ending) {
  if (is_regular_) return add(text, ending);
  if (compression_ == nullptr) return write(std::string(text) + std::string(ending), "");
  const std::string body = compression_->add(text);
  return write(body + compression_->end(ending).value_or(""), "");
}

std::optional<base::Failure> OpenDocument::write(const std::string& body, std::string ending) {
  if (!is_regular_) {
    if (!write_all(file_.get(), body, limits::kConsoleWait)) return write_failure(what_);
    body_ += body.size();
    return std::nullopt;
  }
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) != this->size()) {
    return base::Failure{"cannot write " + what_ +
                         ": another program has changed the file. Give each job a file of its own."};
  }
  const std::uint64_t size = body_ + body.size() + ending.size();
  const bool is_shorter = size < this->size();
  if (!write_at(file_.get(), body + ending, body_) ||
      (is_shorter && ::ftruncate(file_.get(), static_cast<off_t>(size)) != 0)) {
    base::Failure failure = write_failure(what_);
    restore();
    return failure;
  }
  body_ += body.size();
  ending_ = std::move(ending);
  return std::nullopt;
}

// The end that was overwritten had space, so it has space again.
void OpenDocument::restore() const {
  if (::ftruncate(file_.get(), static_cast<off_t>(size())) == 0) write_at(file_.get(), ending_, body_);
}

}  // namespace ddp::launcher
