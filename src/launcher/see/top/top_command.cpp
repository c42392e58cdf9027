#include "launcher/see/top/top_command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/see/top/running_jobs.h"
#include "launcher/see/top/top_screen.h"
#include "launcher/see/top/view_client.h"
#include "launcher/see/top/view_socket.h"
#include "launcher/see/view/job_snapshot.h"
#include "launcher/see/view/styled_line.h"
#include "launcher/see/view/top_frame.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/output_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {
namespace {

using std::chrono::steady_clock;

constexpr FrameSize kPrinted{100, 100};  // of a frame that is printed once, if the standard output is no terminal

std::string text_of_variable(const std::vector<std::string>& environment, const char* name) {
  return find_variable(environment, name).value_or("");
}

FrameSize printed_size(const std::vector<std::string>& environment) {
  winsize window{};
  FrameSize size = kPrinted;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) size.columns = window.ws_col;
  const auto columns = base::parse_integer(text_of_variable(environment, "COLUMNS"), 1, 1000);
  if (columns) size.columns = static_cast<int>(*columns);
  return size;
}

// Returns whether the processors that a running rank uses have not been measured yet.
bool lacks_usage(const JobSnapshot& job) {
  return std::ranges::any_of(
      job.ranks, [](const RankRow& rank) { return rank.pid != 0 && rank.state != RankState::ended && !rank.cpus; });
}

class Command {
 public:
  Command(const TopOptions& options, const std::vector<std::string>& environment, Log& log)
      : options_(options),
        environment_(environment),
        style_(style_of_terminal(options, environment, ::isatty(STDOUT_FILENO) == 1)),
        log_(log) {
    view_.order = options.order;
    view_.filter = options.filter;
  }

  int run(int (*print)(const std::string& text)) {
    auto fd = connect();
    if (!fd) return fail(fd.error().message);
    if (options_.json && !options_.once) return print_lines(fd.value().get());
    if (!options_.once) return show(std::move(fd).value());
    const auto answer = ask_for_all(fd.value().get());
    if (!answer) return fail(answer.error().message);
    if (options_.json) return print(json_of(answer.value()) + "\n");
    std::string text;
    for (const std::string& line : job_lines(answer.value(), view_, printed_size(environment_), style_)) {
      text += line + "\n";
    }
    return print(text);
  }

 private:
  // The jobs of a list have a line each.
  int fail(const std::string& message) {
    for (const std::string& line : base::split(message, '\n')) {
      log_.write({LogLevel::error, LogSource::launcher, line});
    }
    return base::kExitOwnFault;
  }

  base::Result<base::UniqueFd> connect() {
    std::string path = options_.job;
    if (path.find('/') == std::string::npos) {
      const auto jobs = find_jobs(environment_);
      if (!jobs) return jobs.error();
      auto job = choose_job(jobs.value(), path);
      if (!job) return job.error();
      if (!job.value().refusal.empty()) return base::Failure{clean_text(job.value().refusal)};
      if (job.value().connection) return std::move(*job.value().connection);
      path = job.value().path;
    }
    auto fd = connect_to(path);
    if (!fd) return base::Failure{fd.error().message + ". Is the job still running?"};
    return std::move(fd).value();
  }

  static base::Result<JobSnapshot> ask(int fd) {
    const auto deadline = steady_clock::now() + limits::kViewPatience;
    auto answer = ask_launcher(fd, {ViewWish::snapshot, 0}, deadline);
    if (!answer) return base::Failure{"the launcher does not show its job (" + answer.error().message + ")"};
    if (answer.value().kind == ViewAnswer::Kind::snapshot) return std::move(answer).value().snapshot;
    const auto& lines = answer.value().lines;
    return base::Failure{lines.empty() ? "the launcher does not show its job" : clean_text(lines.front())};
  }

  // The launcher measures what the processes use only while a view is connected.
  static base::Result<JobSnapshot> ask_for_all(int fd) {
    const auto end = steady_clock::now() + limits::kViewUsageTime;
    while (true) {
      auto answer = ask(fd);
      const bool is_complete = !answer || !lacks_usage(answer.value());
      if (is_complete || steady_clock::now() > end) return answer;
      std::this_thread::sleep_for(limits::kViewSnapshotAge);
    }
  }

  // Prints a line per interval, until the job or the reader has ended.
  int print_lines(int fd) {
    for (bool is_first = true;; is_first = false) {
      const auto next = steady_clock::now() + options_.interval;
      const auto answer = ask(fd);
      if (!answer) return is_first ? fail(answer.error().message) : 0;
      const std::string line = json_of(answer.value()) + "\n";
      if (std::fputs(line.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
        return errno == EPIPE ? 0 : fail("cannot write to the standard output");
      }
      std::this_thread::sleep_until(next);
    }
  }

  int show(base::UniqueFd fd) {
    if (text_of_variable(environment_, "TERM") == "dumb") {
      return fail("the terminal cannot move its cursor (TERM=dumb). Add --once.");
    }
    net::EventLoop loop;
    auto terminal = Terminal::open();
    if (!terminal) return fail(terminal.error().message);
    auto screen = std::make_unique<TopScreen>(loop, std::move(fd), std::move(terminal).value(),
                                              TopScreen::Options{view_, style_, options_.interval});
    const auto end = screen->run();
    const std::string refusal = clean_text(screen->refusal());
    screen.reset();  // restores the terminal before a line is printed
    if (end == TopScreen::End::refused) return fail(refusal);
    if (end == TopScreen::End::job_ended) {
      log_.write({LogLevel::info, LogSource::launcher, "the job has ended"});
    }
    return end == TopScreen::End::terminal_lost ? base::kExitOwnFault : 0;
  }

  const TopOptions& options_;
  const std::vector<std::string>& environment_;
  const FrameStyle style_;
  TopView view_;
  Log& log_;
};

}  // namespace

FrameStyle style_of_terminal(const TopOptions& options, const std::vector<std::string>& environment, bool is_terminal) {
  FrameStyle style;
  style.has_colours = !options.no_color && wants_color(Color::automatic, environment, is_terminal);
  // As setlocale() chooses the encoding.
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = text_of_variable(environment, name);
  }
  std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return std::tolower(c); });
  style.has_unicode = locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return style;
}

int run_top_command(const TopOptions& options, const std::vector<std::string>& environment, Log& log,
                    int (*print)(const std::string& text)) {
  return Command(options, environment, log).run(print);
}

}  // namespace ddp::launcher
