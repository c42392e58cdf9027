#include "launcher/hosts/host_output.h"

#include <cerrno>

namespace ddp::launcher {
namespace {

constexpr std::string_view kOwnLine = "ddplaunch: ";

}  // namespace

HostOutput::HostOutput(net::EventLoop& loop, const HostOutputOptions& options)
    : mark_(answer_mark(options.nonce)), no_tag_("", {}, false) {
  for (const std::string& name : options.hosts) hosts_.emplace_back().name = name;
  ConsoleBounds bounds;
  bounds.lossless = options.lossless;
  bounds.ends_last_line = hosts_.size() > 1;
  if (bounds.lossless) bounds.backlog = limits::kLosslessBacklog;
  out_ = std::make_unique<Console>(loop, options.console_out, no_tag_, bounds);
  if (!same_file(options.console_out, options.console_err)) {
    err_ = std::make_unique<Console>(loop, options.console_err, no_tag_, bounds);
  }
  for (Console* each : {out_.get(), err_.get()}) {
    if (each == nullptr) continue;
    each->on_room = [this] {
      if (on_room) on_room();
    };
    each->on_closed = [this](int error) {
      if (on_closed && (error == EPIPE || error == EIO || error == ECONNRESET)) on_closed();
    };
  }
}

void HostOutput::take(std::size_t host, int stream, std::string_view bytes) {
  LineSplitter& lines = stream == 0 ? hosts_.at(host).out : hosts_.at(host).err;
  const auto sink = [&](const LinePiece& piece) { show(host, stream, piece); };
  lines.feed(bytes, sink);
  lines.settle(sink);
  flush();
}

void HostOutput::finish(std::size_t host) {
  hosts_.at(host).out.show_unfinished([&](const LinePiece& piece) { show(host, 0, piece); });
  hosts_.at(host).err.show_unfinished([&](const LinePiece& piece) { show(host, 1, piece); });
  flush();
}

// An answer is taken out, wherever in a line it stands.
void HostOutput::show(std::size_t host, int stream, const LinePiece& piece) {
  const std::size_t at = stream == 0 ? piece.text.find(mark_) : std::string_view::npos;
  if (at == std::string_view::npos) return show_piece(host, stream, piece);
  if (at > 0) show_piece(host, stream, {piece.text.substr(0, at), piece.begins, false});
  const auto answer = decode_answer(piece.text.substr(at + mark_.size()));
  if (!answer) return;
  hosts_[host].ready = hosts_[host].ready || answer->ready;
  if (on_answer) on_answer(host, *answer);
}

void HostOutput::show_piece(std::size_t host, int stream, const LinePiece& piece) {
  const bool is_own = stream == 1 && piece.begins && piece.text.starts_with(kOwnLine);
  if (is_own) return show_named(host, piece, piece.text.substr(kOwnLine.size()));
  // ssh itself, or a shell that cannot start the launcher.
  if (!hosts_[host].ready) return show_named(host, piece, piece.text);
  console(stream).show({piece, static_cast<int>(2 * host) + stream, 0, 1, {}, false});
}

void HostOutput::show_named(std::size_t host, const LinePiece& piece, std::string_view text) {
  std::string line = piece.begins ? std::string(kOwnLine) + "[" + hosts_[host].name + "] " : "";
  line += text;
  console(1).show({{line, piece.begins, piece.ends}, static_cast<int>(2 * host) + 1, 0, 1, {}, false});
}

void HostOutput::flush() {
  out_->flush();
  if (err_) err_->flush();
}

void HostOutput::before_own_line() {
  for (Console* each : {out_.get(), err_.get()}) {
    if (each != nullptr) each->finish_line();
  }
  const std::chrono::milliseconds wait = limits::kConsoleWait;
  out_->flush();
  console(1).flush_within(wait, wait, {});
}

void HostOutput::end(const std::function<bool()>& interrupted) {
  out_->say_goodbye(interrupted);
  if (err_) err_->say_goodbye(interrupted);
}

}  // namespace ddp::launcher
