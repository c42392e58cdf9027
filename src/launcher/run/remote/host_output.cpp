#include "launcher/run/remote/host_output.h"

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/run/remote/remote_texts.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kOwnLine = "ddplaunch: ";

}  // namespace

HostOutput::HostOutput(net::EventLoop& loop, const HostPlan& plan, int console_out, int console_err)
    : mark_(reply_mark(plan.starts.front().request.nonce)),
      loop_(loop),
      no_tag_("", {}, false),
      named_(static_cast<int>(plan.starts.size()), LineCollapse::Bounds{},
             [this](const OutputLine& line) { show_named(line); }) {
  for (const HostStart& start : plan.starts) {
    named_.enter(static_cast<int>(hosts_.size()));
    hosts_.emplace_back().name = start.host;
  }
  ConsoleBounds bounds;
  bounds.lossless = plan.options.lossless;
  bounds.ends_last_line = hosts_.size() > 1;
  if (bounds.lossless) bounds.backlog = limits::kLosslessBacklog;
  consoles_.push_back(std::make_unique<Console>(loop, console_out, no_tag_, bounds));
  if (!same_file(console_out, console_err))
    consoles_.push_back(std::make_unique<Console>(loop, console_err, no_tag_, bounds));
  for (const auto& each : consoles_) {
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
  named_.leave(static_cast<int>(host));
  flush();
}

// Removes a reply from the output, wherever it is in a line.
void HostOutput::show(std::size_t host, int stream, const LinePiece& piece) {
  const std::size_t at = stream == 0 ? piece.text.find(mark_) : std::string_view::npos;
  if (at == std::string_view::npos) return show_piece(host, stream, piece);
  if (at > 0) show_piece(host, stream, {piece.text.substr(0, at), piece.begins, false});
  const auto reply = decode_reply(piece.text.substr(at + mark_.size()));
  if (!reply) return;
  hosts_[host].ready = hosts_[host].ready || reply->ready;
  if (on_reply) on_reply(host, *reply);
}

void HostOutput::show_piece(std::size_t host, int stream, const LinePiece& piece) {
  const bool is_own = stream == 1 && piece.begins && piece.text.starts_with(kOwnLine);
  const int id = static_cast<int>(2 * host) + stream;
  // Until the host is ready, the output is from ssh itself, or from a shell that cannot start the launcher.
  if (hosts_[host].ready && !is_own) return console(stream).show({piece, id, 0, 1, {}, false});
  const LinePiece named{piece.text.substr(is_own ? kOwnLine.size() : 0), piece.begins, piece.ends};
  if (!hosts_[host].ready) return show_early(host, id, named);
  named_.say(static_cast<int>(host), id, named, std::chrono::steady_clock::now());
  arm();
}

// A host that prints endlessly must not fill the console before the job has begun.
void HostOutput::show_early(std::size_t host, int id, const LinePiece& piece) {
  Host& from = hosts_[host];
  if (from.is_cut) return;
  from.early_lines += piece.begins ? 1 : 0;
  from.early_bytes += piece.text.size();
  from.is_cut = from.early_lines > limits::kHostEarlyLines || from.early_bytes > limits::kHostEarlyBytes;
  const std::string text = (piece.begins ? "" : " ... ") + std::string(kEarlyOutputText) + "\n";
  const LinePiece note{text, piece.begins, true};
  named_.say(static_cast<int>(host), id, from.is_cut ? note : piece, std::chrono::steady_clock::now());
  arm();
}

void HostOutput::show_named(const OutputLine& line) {
  std::string text = line.piece.begins ? std::string(kOwnLine) + "[" + names_of(line) + "] " : "";
  const std::string_view said = line.piece.text;
  const std::size_t end = said.ends_with("\r\n") ? 2 : said.ends_with('\n') || said.ends_with('\r') ? 1 : 0;
  text += base::printable(said.substr(0, said.size() - end));
  text += said.substr(said.size() - end);
  console(1).show({{text, line.piece.begins, line.piece.ends}, line.stream, 0, 1, {}, false});
}

std::string HostOutput::names_of(const OutputLine& line) const {
  constexpr std::size_t kMostNames = 4;
  if (line.times == 1) return hosts_[static_cast<std::size_t>(line.local_rank)].name;
  const std::vector<int> hosts = ranks_of(line.ranks);
  std::vector<std::string> names;
  for (const int host : std::span(hosts).first(std::min(hosts.size(), kMostNames))) {
    names.push_back(hosts_[static_cast<std::size_t>(host)].name);
  }
  if (hosts.size() > names.size()) names.push_back("and " + std::to_string(hosts.size() - names.size()) + " more");
  return base::join(names, ", ");
}

void HostOutput::arm() {
  const auto due = named_.due();
  if (timer_ || !due) return;
  timer_ = loop_.at(*due, [this] {
    const auto spent = std::move(timer_);
    named_.emit_due(std::chrono::steady_clock::now());
    flush();
    arm();
  });
}

void HostOutput::flush() {
  for (const auto& each : consoles_) each->flush();
}

void HostOutput::before_own_line(std::chrono::milliseconds most) {
  named_.emit_all();
  for (const auto& each : consoles_) each->finish_line();
  console(0).flush();
  console(1).flush_within(most, most, {});
}

void HostOutput::end(const std::function<bool()>& interrupted) {
  named_.emit_all();
  for (const auto& each : consoles_) each->say_goodbye(interrupted);
}

}  // namespace ddp::launcher
