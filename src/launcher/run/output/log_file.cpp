#include "launcher/run/output/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/uninterrupted.h"
#include "launcher/run/output/output_texts.h"
#include "launcher/start/log/file_output.h"

namespace ddp::launcher {

base::Result<base::UniqueFd> open_log_file(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  base::UniqueFd fd(base::uninterrupted([&] { return ::open(path.c_str(), kFlags, 0644); }));
  if (!fd) return base::Failure{no_log_file_text(path, std::strerror(errno))};
  // A worker that gets this descriptor expects it to block.
  const int flags = ::fcntl(fd.get(), F_GETFL);
  ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  return fd;
}

std::string last_bytes_of_file(const std::string& path, std::size_t bytes, bool& cut) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  const off_t size = fd ? ::lseek(fd.get(), 0, SEEK_END) : -1;
  if (size <= 0) return "";
  const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(bytes));
  cut = begin > 0;
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

void LogFile::write(std::string_view bytes, const Failed& failed) {
  if (!fd_ || write_all(fd_.get(), bytes, std::chrono::milliseconds(0))) return;
  const std::string reason = std::strerror(errno);
  fd_.reset();
  if (failed) failed(log_file_ends_text(path_, reason));
}

std::string LineFilter::open(const std::string& path) {
  if (!wanted() || path.empty() || path == file_.path()) return "";
  auto fd = open_log_file(path);
  if (!fd) return fd.error().message;
  file_ = LogFile(path, std::move(fd).value());
  return "";
}

void LineFilter::take(const LinePiece& piece, const std::function<std::string()>& tag, bool& matches,
                      const LogFile::Failed& failed) {
  const bool goes_on = matches && !piece.begins;
  const auto is_in = [&](const std::string& word) { return piece.text.find(word) != std::string_view::npos; };
  if (goes_on || std::ranges::any_of(words_, is_in)) {
    file_.write((goes_on ? std::string() : tag()) + std::string(piece.text), failed);
    matches = !piece.ends;
  } else {
    matches = false;
  }
}

}  // namespace ddp::launcher
