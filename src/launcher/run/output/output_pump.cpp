#include "launcher/run/output/output_pump.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/text.h"
#include "launcher/run/output/output_texts.h"
#include "launcher/run/output/worker_channel.h"

namespace ddp::launcher {

using std::chrono::steady_clock;

// All reading and showing happens within a Turn. It sets the time, and at its end flushes the consoles. Callbacks
// during a turn find busy_ set, and touch neither the buffer nor the collapse.
class OutputPump::Turn {
 public:
  explicit Turn(OutputPump& pump) : pump_(pump) {
    pump_.busy_ = true;
    pump_.now_ = steady_clock::now();
    pump_.tag_.set_time(std::chrono::system_clock::now());
  }
  ~Turn() {
    for (const auto& one : pump_.owned_outlets_) {
      if (one->collapse) one->collapse->emit_due(pump_.now_);
      one->console->flush();
    }
    pump_.busy_ = false;
    pump_.arm_collapse();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  OutputPump& pump_;
};

OutputPump::OutputPump(net::EventLoop& loop, OutputPlan plan, OutputContext context)
    : loop_(loop),
      plan_(std::move(plan)),
      context_(std::move(context)),
      tag_(plan_.tag, {context_.node, context_.role}, plan_.color),
      streams_(plan_.workers.size() * 2),
      filters_{LineFilter(plan_.stdout_filters), LineFilter(plan_.stderr_filters)},
      now_(steady_clock::now()) {
  context_.console.lossless = plan_.lossless;
  context_.console.ends_last_line = plan_.workers.size() > 1 || !plan_.tag.empty();
  // Workers that wait anyway need no large backlog.
  if (plan_.lossless) context_.console.backlog = std::min(context_.console.backlog, limits::kLosslessBacklog);
  add_outlet(context_.console_out);
  outlets_ = {owned_outlets_.front().get(), owned_outlets_.front().get()};
  // If both outputs lead to the same place, one backlog keeps the lines whole and in order.
  if (same_file(context_.console_out, context_.console_err)) return;
  add_outlet(context_.console_err);
  outlets_[kStderr] = owned_outlets_.back().get();
  // What reads standard output may show it on the terminal of standard error, as tee does.
  if (!outlet(kStdout).console->may_be_terminal()) return;
  outlet(kStdout).console->before_line = [console = outlet(kStderr).console.get()] { console->yield_footer(); };
}

OutputPump::~OutputPump() = default;

void OutputPump::add_outlet(int fd) {
  auto outlet = std::make_unique<Outlet>();
  outlet->console = std::make_unique<Console>(loop_, fd, tag_, context_.console);
  Console* console = outlet->console.get();
  console->on_room = [this, console] { room_again(*console); };
  console->on_closed = [this](int error) { console_closed(error); };
  if (plan_.collapse && plan_.workers.size() > 1) {
    outlet->collapse = std::make_unique<LineCollapse>(static_cast<int>(plan_.workers.size()), LineCollapse::Bounds{},
                                                      [console](const OutputLine& line) { console->show(line); });
  }
  owned_outlets_.push_back(std::move(outlet));
}

std::size_t OutputPump::share(std::size_t all, std::size_t most) const {
  return std::bit_floor(std::clamp<std::size_t>(all / std::max<std::size_t>(streams_.size(), 1), 1024, most));
}

base::Result<WorkerStreams> OutputPump::open(const WorkerLabel& label, const WorkerFiles& files) {
  DDP_CHECK(label.local_rank >= 0 && static_cast<std::size_t>(label.local_rank) < plan_.workers.size(),
            label.local_rank);
  tag_.set_rank(label.local_rank, label.rank);
  for (const int which : {kStdout, kStderr}) {
    const std::string failure = filter(which).open(which == kStdout ? files.filtered_out : files.filtered_err);
    if (!failure.empty()) return base::Failure{failure};
  }
  auto out = open_stream(label, kStdout, files.out);
  if (!out) return out.error();
  auto err = open_stream(label, kStderr, files.err);
  if (!err) return err.error();
  return WorkerStreams{std::move(out).value(), std::move(err).value()};
}

base::Result<base::UniqueFd> OutputPump::open_stream(const WorkerLabel& label, int which, const std::string& file) {
  const int id = label.local_rank * 2 + which;
  auto& slot = streams_[static_cast<std::size_t>(id)];
  if (slot && slot->fd) {
    const Turn turn(*this);
    read_what_is_there(*slot);
    if (slot->fd) finish(*slot);
  }
  auto stream = std::make_unique<WorkerStream>();
  stream->id = id;
  stream->local_rank = label.local_rank;
  stream->which = which;
  const WorkerOutputPlan& plan = plan_.workers[static_cast<std::size_t>(label.local_rank)];
  stream->plan = which == kStdout ? plan.out : plan.err;
  stream->tail = StreamTail(share(limits::kTailsBytes, limits::kTailBytes));
  if (stream->plan.to_file) {
    auto fd = open_log_file(file);
    if (!fd) return fd.error();
    if (!stream->plan.to_console && !filter(which).wanted()) {
      stream->direct_file = file;
      slot = std::move(stream);
      return fd;
    }
    stream->file = LogFile(file, std::move(fd).value());
  }
  const int console = which == kStdout ? context_.console_out : context_.console_err;
  auto channel = open_worker_channel(stream->plan.to_console ? console : -1,
                                     share(limits::kPipesBytes, limits::kPipeBytes), tag_columns(*stream));
  if (!channel) return channel.error();
  if (buffer_.empty()) buffer_.resize(limits::kOutputTurnBytes);
  stream->fd = std::move(channel.value().ours);
  stream->terminal = channel.value().terminal;
  if (stream->plan.to_console && outlet(which).collapse) outlet(which).collapse->enter(label.local_rank);
  slot = std::move(stream);
  arm(*slot);
  return std::move(channel.value().theirs);
}

void OutputPump::arm(WorkerStream& stream) {
  stream.waiting = feeds_full_console(stream);
  if (!stream.fd || stream.waiting) return;
  stream.watch = loop_.watch_readable(stream.fd.get(), [this, &stream] {
    const auto spent = std::move(stream.watch);
    turn(stream);
  });
}

void OutputPump::turn(WorkerStream& stream) {
  // Another stream may have filled the console since this one was armed.
  if (!feeds_full_console(stream)) {
    const Turn turn(*this);
    read_what_is_there(stream);
  }
  arm(stream);
}

void OutputPump::read_what_is_there(WorkerStream& stream) {
  std::size_t left = limits::kOutputTurnBytes;
  while (left > 0 && stream.fd) {
    const std::size_t got = read_some(stream, left);
    left -= got;
    // A pipe that gave less is empty, but a terminal gives little at a time.
    if (got == 0 || (!stream.terminal && left > 0)) {
      stream.splitter.settle([&](const LinePiece& piece) { take_piece(stream, piece); });
      break;
    }
  }
  if (!stream.splitter.unfinished()) {
    stream.unfinished_since.reset();
  } else if (!stream.unfinished_since) {
    stream.unfinished_since = now_;
    arm_unfinished();
  }
}

std::size_t OutputPump::read_some(WorkerStream& stream, std::size_t most) {
  while (true) {
    const ssize_t got = ::read(stream.fd.get(), buffer_.data(), std::min(most, buffer_.size()));
    if (got > 0) {
      take(stream, {buffer_.data(), static_cast<std::size_t>(got)});
      return static_cast<std::size_t>(got);
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    // EIO marks the end of a terminal. After any other error, no more can be read either.
    finish(stream);
    return 0;
  }
}

void OutputPump::take(WorkerStream& stream, std::string_view chunk) {
  if (stream.file) stream.file.write(chunk, [this](const std::string& text) { notice(text); });
  stream.tail.add(chunk);
  stream.bytes += chunk.size();
  if (on_bytes) on_bytes(stream.local_rank, stream.which, chunk);
  if (!filter(stream.which).active() && (!stream.plan.to_console || outlet(stream.which).console->closed())) return;
  stream.splitter.feed(chunk, [&](const LinePiece& piece) {
    stream.unfinished_since.reset();
    take_piece(stream, piece);
  });
}

void OutputPump::take_piece(WorkerStream& stream, const LinePiece& piece) {
  if (LineFilter& lines = filter(stream.which); lines.active()) {
    const auto tag = [&] { return tag_.plain(stream.local_rank); };
    lines.take(piece, tag, stream.filter_matches, [this](const std::string& text) { notice(text); });
  }
  if (!stream.plan.to_console) return;
  Outlet& way = outlet(stream.which);
  if (way.collapse && stream.plan.tagged) {
    way.collapse->say(stream.local_rank, stream.id, piece, now_);
  } else {
    way.console->show({piece, stream.id, stream.local_rank, 1, {}, stream.plan.tagged});
  }
}

void OutputPump::finish(WorkerStream& stream) {
  const auto sink = [&](const LinePiece& piece) { take_piece(stream, piece); };
  context_.console.ends_last_line ? stream.splitter.finish(sink) : stream.splitter.show_unfinished(sink);
  stream.unfinished_since.reset();
  stream.watch.reset();
  stream.fd.reset();
  auto& collapse = outlet(stream.which).collapse;
  if (stream.plan.to_console && collapse) collapse->leave(stream.local_rank);
}

void OutputPump::arm_collapse() {
  if (collapse_timer_) return;
  std::optional<OutputTime> first;
  for (const auto& one : owned_outlets_) {
    const auto due = one->collapse ? one->collapse->due() : std::nullopt;
    if (due && (!first || *due < *first)) first = due;
  }
  if (!first) return;
  collapse_timer_ = loop_.at(*first, [this] {
    const auto spent = std::move(collapse_timer_);
    const Turn turn(*this);
  });
}

void OutputPump::show_unfinished() {
  for (const auto& stream : streams_) {
    if (!stream || !stream->unfinished_since) continue;
    if (*stream->unfinished_since + limits::kPartialLine > now_) continue;
    stream->unfinished_since.reset();
    stream->splitter.show_unfinished([&](const LinePiece& piece) { take_piece(*stream, piece); });
  }
}

void OutputPump::arm_unfinished() {
  if (unfinished_timer_) return;
  std::optional<OutputTime> first;
  for (const auto& stream : streams_) {
    if (stream && stream->unfinished_since && (!first || *stream->unfinished_since < *first)) {
      first = stream->unfinished_since;
    }
  }
  if (!first) return;
  unfinished_timer_ = loop_.at(*first + limits::kPartialLine, [this] {
    const auto spent = std::move(unfinished_timer_);
    const Turn turn(*this);
    show_unfinished();
    arm_unfinished();
  });
}

void OutputPump::room_again(const Console& console) {
  for (const auto& stream : streams_) {
    if (stream && stream->waiting && outlet(stream->which).console.get() == &console) arm(*stream);
  }
}

void OutputPump::console_closed(int error) {
  if (error != EPIPE && error != EIO && error != ECONNRESET) {
    return notice(no_console_text(std::strerror(error)));
  }
  if (std::exchange(reported_closed_, true)) return;
  if (on_console_closed) on_console_closed();
}

void OutputPump::read_all() {
  for (const auto& stream : streams_) {
    if (stream && stream->fd && !feeds_full_console(*stream)) read_what_is_there(*stream);
  }
}

void OutputPump::show_gathered(int which, std::string_view line) {
  const Turn turn(*this);
  OutputLine shown;
  shown.piece.text = line;
  shown.stream = static_cast<int>(streams_.size()) + which;
  shown.tagged = false;
  shown.gathered = true;
  outlet(which).console->show(shown);
}

void OutputPump::before_own_line(std::chrono::milliseconds most) {
  outlet(kStderr).console->yield_footer();
  if (busy_) return;
  {
    const Turn turn(*this);
    read_all();
    emit_all();
    for (const auto& one : owned_outlets_) one->console->finish_line();
  }
  outlet(kStderr).console->flush_within(most, most, {});  // the launcher's own line goes there
}

void OutputPump::emit_all() {
  for (const auto& one : owned_outlets_) {
    if (one->collapse) one->collapse->emit_all();
  }
}

bool OutputPump::drain_step(std::chrono::steady_clock::time_point until) {
  std::vector<pollfd> polled;
  std::vector<WorkerStream*> readers;
  for (const auto& stream : streams_) {
    if (!stream || !stream->fd || feeds_full_console(*stream)) continue;
    polled.push_back({stream->fd.get(), POLLIN, 0});
    readers.push_back(stream.get());
  }
  for (const auto& one : owned_outlets_) polled.push_back({one->console->waits_for(), POLLOUT, 0});
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
  ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(wait.count(), 0)));
  bool any = false;
  const Turn turn(*this);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (polled[i].revents == 0) continue;
    any = true;
    read_what_is_there(*readers[i]);
  }
  for (const auto& one : owned_outlets_) one->console->tick();
  return any;
}

void OutputPump::drain(std::chrono::milliseconds limit) {
  auto quiet_since = steady_clock::now();
  auto end = quiet_since + limit;
  const auto is_open = [](const auto& stream) { return stream && stream->fd; };
  const auto is_held_up = [&](const auto& stream) { return is_open(stream) && feeds_full_console(*stream); };
  while (std::ranges::any_of(streams_, is_open)) {
    const auto now = steady_clock::now();
    const bool held_up = std::ranges::any_of(streams_, is_held_up);
    if (now >= end || (!held_up && now >= quiet_since + limits::kDrainQuiet)) break;
    if (held_up && interrupted && interrupted()) break;
    const bool any =
        drain_step(std::min(end, held_up ? now + limits::kConsolePoll : quiet_since + limits::kDrainQuiet));
    const auto after = steady_clock::now();
    if (any || held_up) quiet_since = after;
    if (held_up && plan_.lossless) end += after - now;
  }
  {
    const Turn turn(*this);
    for (const auto& stream : streams_) {
      if (is_open(stream)) finish(*stream);
    }
    emit_all();
  }
  for (const auto& one : owned_outlets_) one->console->say_goodbye(interrupted);
}

std::vector<std::string> OutputPump::last_lines(int local_rank) const {
  const auto lines_of = [&](int which, std::size_t most) {
    const auto [text, is_cut] = tail_of(streams_[static_cast<std::size_t>(local_rank * 2 + which)].get());
    return last_lines_of(text, is_cut, most, limits::kLastLineBytes);
  };
  const auto err = lines_of(kStderr, limits::kLastLines);
  auto lines = lines_of(kStdout, limits::kLastLines - err.size());
  base::append(lines, err);
  return lines;
}

std::optional<PythonError> OutputPump::printed_error(int local_rank) {
  if (!busy_) {
    const Turn turn(*this);
    read_all();
  }
  // A program may print its error to either stream.
  for (const int which : {kStderr, kStdout}) {
    const auto text = tail_of(streams_[static_cast<std::size_t>(local_rank * 2 + which)].get()).text;
    if (auto error = last_cxx_error(text)) return error;
    if (auto error = last_python_error(text)) return error;
  }
  return std::nullopt;
}

void OutputPump::copy_console_size() {
  for (const auto& stream : streams_) {
    if (!stream || !stream->fd || !stream->terminal) continue;
    copy_terminal_size(stream->which == kStdout ? context_.console_out : context_.console_err, stream->fd.get(),
                       tag_columns(*stream));
  }
  outlet(kStderr).console->redraw_footer();
}

}  // namespace ddp::launcher
