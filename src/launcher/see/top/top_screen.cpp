#include "launcher/see/top/top_screen.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "launcher/limits.h"
#include "launcher/see/view/top_frame.h"

namespace ddp::launcher {
namespace {

using std::chrono::steady_clock;

constexpr auto kEscapePause = std::chrono::milliseconds(50);  // the rest of a key's sequence comes within this time
constexpr std::array kSignals = {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT};

}  // namespace

TopScreen::TopScreen(net::EventLoop& loop, base::UniqueFd fd, std::unique_ptr<Terminal> terminal, Options options)
    : loop_(loop),
      style_(options.style),
      interval_(options.interval),
      terminal_(std::move(terminal)),
      writer_(loop, terminal_->fd(), [this] { end(End::terminal_lost); }),
      client_(loop, std::move(fd),
              {[this](const ViewAnswer& answer) { take(answer); },
               [this] { end(has_snapshot_ ? End::job_ended : End::refused); },
               [this](const std::string& what) {
                 waits_for_snapshot_ = false;
                 state_.view.message = what;
                 draw();
               }}),
      snapshot_taken_(steady_clock::now()) {
  state_.view = std::move(options.view);
  state_.size = terminal_->size();
}

TopScreen::End TopScreen::run() {
  signals_ = loop_.on_signals(kSignals, [this](int number) { signal(number); });
  keyboard_ = loop_.keep_watching(terminal_->fd(), [this] { read_keys(); });
  tick();
  loop_.run();
  writer_.abandon();
  return end_;
}

void TopScreen::end(End how) {
  end_ = how;
  loop_.stop();
}

// Asks for the next snapshot. A launcher that has not answered yet is not asked again for some time.
void TopScreen::tick() {
  timer_ = loop_.at(steady_clock::now() + interval_, [this] {
    const auto spent = std::move(timer_);
    tick();
  });
  const bool is_asked = waits_for_snapshot_ && steady_clock::now() < asked_ + limits::kViewPatience;
  if (!state_.view.is_paused && !is_asked) {
    waits_for_snapshot_ = true;
    asked_ = steady_clock::now();
    client_.send({ViewWish::snapshot, 0});
  } else if (!state_.view.is_paused) {
    draw();  // the age of the snapshot
  }
}

void TopScreen::take(const ViewAnswer& answer) {
  switch (answer.kind) {
    case ViewAnswer::Kind::snapshot:
      waits_for_snapshot_ = false;
      if (state_.view.is_paused) return;
      state_.snapshot = answer.snapshot;
      has_snapshot_ = true;
      snapshot_taken_ = steady_clock::now();
      break;
    case ViewAnswer::Kind::stacks:
      show_stacks(state_, answer.rank, answer.lines);
      break;
    case ViewAnswer::Kind::output:
      add_output(state_, answer.rank, answer.lines);
      break;
    case ViewAnswer::Kind::error:
      waits_for_snapshot_ = false;
      state_.view.message = refusal_ = answer.lines.front();
      break;
  }
  draw();
}

void TopScreen::read_keys() {
  std::array<char, 256> bytes;
  const ssize_t count = ::read(terminal_->fd(), bytes.data(), bytes.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return end(End::terminal_lost);
  escape_.reset();
  press_all(keys_.add({bytes.data(), static_cast<std::size_t>(count)}));
  if (keys_.is_undecided()) {
    escape_ = loop_.at(steady_clock::now() + kEscapePause, [this] { press_all(keys_.decide()); });
  }
}

void TopScreen::press_all(const std::vector<Key>& keys) {
  for (const Key& key : keys) obey(press(key, state_));
  if (!keys.empty()) draw();
}

void TopScreen::obey(TopEffect effect) {
  switch (effect) {
    case TopEffect::none:
      return;
    case TopEffect::quit:
      return end(End::quit);
    case TopEffect::take_stacks:
      return client_.send({ViewWish::stacks, state_.pane_rank});
    case TopEffect::follow_output:
      return client_.send({ViewWish::output, state_.pane_rank});
    case TopEffect::end_output:
      return client_.send({ViewWish::no_output, 0});
    case TopEffect::redraw:
      return writer_.forget();
  }
}

void TopScreen::signal(int number) {
  switch (number) {
    case SIGWINCH:
      return redraw();
    case SIGTSTP:
      writer_.abandon();
      return terminal_->suspend();
    case SIGCONT:
      terminal_->take();
      return redraw();
    default:
      return end(End::quit);
  }
}

void TopScreen::redraw() {
  state_.size = terminal_->size();
  writer_.forget();
  draw();
}

void TopScreen::draw() {
  if (!has_snapshot_ && state_.view.message.empty()) state_.view.message = "waiting for the launcher";
  state_.view.age = std::chrono::duration<double>(steady_clock::now() - snapshot_taken_).count();
  if (state_.view.is_paused) state_.view.age = 0;
  writer_.show(top_frame(state_.snapshot, state_.view, state_.size, style_));
  if (has_snapshot_ && state_.view.message == "waiting for the launcher") state_.view.message.clear();
}

}  // namespace ddp::launcher
