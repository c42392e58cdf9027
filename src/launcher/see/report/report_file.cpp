#include "launcher/see/report/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/uninterrupted.h"
#include "launcher/limits.h"
#include "launcher/start/log/file_output.h"

namespace ddp::launcher {
namespace {

constexpr std::array kDocumentNames = {"a file", "a summary", "a report", "a trace", "a port file", "an event log"};
constexpr std::size_t kDocumentHead = 4096;  // bytes at the beginning of a file that are enough to recognize it
constexpr std::string_view kGzip = "\x1f\x8b";

// Returns the beginning of the text, or an empty string if it is damaged.
std::string decompressed(std::string_view head) {
  z_stream stream{};
  constexpr int kGzipWindow = MAX_WBITS + 16;
  if (::inflateInit2(&stream, kGzipWindow) != Z_OK) return "";
  std::array<char, kDocumentHead> buffer;
  // The library changes no input; its interface is older than const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(head.data()));
  stream.avail_in = static_cast<uInt>(head.size());
  stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
  stream.avail_out = static_cast<uInt>(buffer.size());
  ::inflate(&stream, Z_SYNC_FLUSH);
  ::inflateEnd(&stream);
  return {buffer.data(), buffer.size() - stream.avail_out};
}

// Returns whether the text begins with these parts, in this order, with digits or spaces between them.
bool begins_with(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    text = text.substr(std::min(text.size(), text.find_first_not_of(" \n\r\t0123456789")));
    if (!text.starts_with(part)) return false;
    text.remove_prefix(part.size());
  }
  return true;
}

}  // namespace

bool is_own_document(Document document, std::string_view head) {
  if (head.empty() || document == Document::any) return true;
  if (head.starts_with(kGzip))
    return document == Document::trace && is_own_document(document, decompressed(head) + " ");
  switch (document) {
    case Document::any:
      return true;
    case Document::summary:
      return begins_with(head, {"{", "\"schema\":", ",", "\"version\":"}) && head.find("\"run_id\"") != head.npos;
    case Document::report:
      return head.starts_with("<!DOCTYPE html>") && head.find(kReportMark) != head.npos;
    case Document::trace:
      return begins_with(head, {R"({"displayTimeUnit":"ms","traceEvents":[)", R"({"ph":"M","pid":)", R"(,"tid":)",
                                R"(,"name":"process_name","args":{"name":"job )"});
    case Document::event_log:
      return begins_with(head, {R"({"time":")", "-", "-", "T", ":", ":", ".", R"(Z","event":")"});
    case Document::port_file:
      return head.find_first_not_of("0123456789\n") == head.npos;
  }
  return false;
}

namespace fs = std::filesystem;

namespace {

// Describes where a report is written.
struct Target {
  base::UniqueFd own;  // set if the target is one of the launcher's outputs
  bool exists = false;
  bool is_unusable = false;  // the path is a loop of symbolic links, which is not replaced, or its name is too long
  struct stat status {};
  std::string path;  // path with symbolic links resolved

  explicit Target(const std::string& name) : path(base::behind_links(name)) {
    exists = ::stat(path.c_str(), &status) == 0;
    is_unusable = !exists && (errno == ELOOP || errno == ENAMETOOLONG);
    if (exists) own = own_output(status);
  }
  bool is_replaced() const { return !own && !is_unusable && (!exists || S_ISREG(status.st_mode)); }
};

// Returns why the file that is there must not be replaced or appended to.
std::optional<base::Failure> protect(const Target& target, Document document, const std::string& what) {
  if (document == Document::any || !target.exists || target.own || !S_ISREG(target.status.st_mode)) return std::nullopt;
  std::string head(kDocumentHead, '\0');
  const base::UniqueFd file(
      base::uninterrupted([&] { return ::open(target.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }));
  const ssize_t size =
      file ? base::uninterrupted([&] { return ::pread(file.get(), head.data(), head.size(), 0); }) : -1;
  if (size >= 0 && is_own_document(document, std::string_view(head).substr(0, static_cast<std::size_t>(size)))) {
    return std::nullopt;
  }
  return base::Failure{
      what + (document == Document::event_log ? " would append to" : " would overwrite") + " a file that " +
      (size < 0 ? "cannot be read"
                : "is not " + std::string(kDocumentNames.at(static_cast<std::size_t>(document))) + " of ddplaunch") +
      ". Use another name, or remove the file."};
}

// Draft is a temporary file that becomes the report or is removed.
class Draft {
 public:
  explicit Draft(const Target& target)
      : target_(target),
        name_((fs::path(target.path).parent_path() / (".ddplaunch-" + base::hex64(base::random64()))).string()),
        file_(base::uninterrupted(
            [this] { return ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode); })),
        exists_(static_cast<bool>(file_)) {}
  ~Draft() {
    if (exists_) ::unlink(name_.c_str());
  }

  bool exists() const { return exists_; }

  // Some file systems report only here that the disk is full.
  bool write_and_close(const std::string& text) {
    if (target_.exists) ::fchmod(file_.get(), target_.status.st_mode & 07777);
    return write_all(file_.get(), text, {}) && ::close(file_.release()) == 0;
  }

  bool replace() {
    exists_ = std::rename(name_.c_str(), target_.path.c_str()) != 0;
    return !exists_;
  }

 private:
  const Target& target_;
  const std::string name_;
  base::UniqueFd file_;
  bool exists_;
};

// Returns whether both paths lead to the same file, which need not exist, and which one writer replaces as a whole.
bool is_same_file(const std::string& one, const std::string& other) {
  const Target a(one);
  const Target b(other);
  if (a.exists != b.exists) return false;
  if (a.exists) {
    return S_ISREG(a.status.st_mode) && !a.own && a.status.st_dev == b.status.st_dev &&
           a.status.st_ino == b.status.st_ino;
  }
  std::error_code error;
  const auto whole = [&](const Target& target) {
    return fs::weakly_canonical(fs::absolute(target.path, error), error);
  };
  return whole(a) == whole(b) && !error;
}

}  // namespace

std::optional<base::Failure> check_distinct(std::span<const OutputFile> files) {
  for (auto later = files.begin(); later != files.end(); ++later) {
    for (auto file = files.begin(); file != later; ++file) {
      const bool is_left_out = file->path.empty() || later->path.empty();
      if (is_left_out || (file->is_appended && later->is_appended) || !is_same_file(file->path, later->path)) continue;
      return base::Failure{later->option + "=" + later->path + " would overwrite the file of " + file->option +
                           ". Use another file."};
    }
  }
  return std::nullopt;
}

std::optional<base::Failure> check_event_log(const OutputFile& event_log, const std::string& launcher_log) {
  if (event_log.path.empty() || is_same_file(event_log.path, launcher_log)) return std::nullopt;
  return protect(Target(event_log.path), Document::event_log, event_log.option + "=" + event_log.path);
}

std::optional<base::Failure> write_report(const std::string& path, const std::string& text, const std::string& what,
                                          Document document) {
  Target target(path);
  if (auto failure = protect(target, document, what)) return failure;
  if (target.is_replaced()) {
    Draft draft(target);
    const bool done = draft.exists() && draft.write_and_close(text) && draft.replace();
    return done ? std::nullopt : std::optional(write_failure(what));
  }
  if (!target.own) target.own.reset(::open(target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (target.own && write_all(target.own.get(), text, limits::kConsoleStall)) return std::nullopt;
  return write_failure(what);
}

std::optional<base::Failure> check_report(const std::string& path, const std::string& what, Document document) {
  if (path.empty()) return std::nullopt;
  const Target target(path);
  if (target.own) return std::nullopt;
  if (auto failure = protect(target, document, what)) return failure;
  if (target.is_replaced()) return Draft(target).exists() ? std::nullopt : std::optional(write_failure(what));
  // The file is not opened, because closing it would be the end of the file for a FIFO's reader.
  if (S_ISDIR(target.status.st_mode)) {
    errno = EISDIR;
    return write_failure(what);
  }
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0 ? std::nullopt : std::optional(write_failure(what));
}

}  // namespace ddp::launcher
