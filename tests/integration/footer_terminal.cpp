// Runs the launcher's output as footer_test.py commands: the worker's bytes, the launcher's own lines and the footer.
//
//   out TEXT | err TEXT   rank 0 writes it; "\n", "\r", "\e" and "\\" stand for the bytes
//   footer [LINE|LINE]    these lines, or none
//   own TEXT              a line of the launcher, which goes to standard error directly
//   resize                as after SIGWINCH
//   pause | resume        as after Ctrl-Z and fg
//
// Commands are lines of standard input. At its end, the output ends.
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>

#include "base/text.h"
#include "launcher/run/output/output_pump.h"

namespace {

using namespace ddp::launcher;

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0) return std::perror("write");
    done += static_cast<std::size_t>(written);
  }
}

std::string bytes_of(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      bytes += text[i];
      continue;
    }
    const char letter = text[++i];
    bytes += letter == 'n' ? '\n' : letter == 'r' ? '\r' : letter == 'e' ? '\x1b' : letter;
  }
  return bytes;
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  OutputPlan plan;
  plan.workers.assign(1, {{true, false}, {true, false}});
  ddp::net::EventLoop loop;
  OutputPump pump(loop, plan, {"node0", "default"});
  auto streams = pump.open({0, 0}, {});
  if (!streams) return 1;

  const auto obey = [&](const std::string& line) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string command = line.substr(0, space);
    const std::string rest = space < line.size() ? line.substr(space + 1) : "";
    if (command == "out") return write_all(streams.value().out.get(), bytes_of(rest));
    if (command == "err") return write_all(streams.value().err.get(), bytes_of(rest));
    if (command == "footer")
      return pump.set_footer(rest.empty() ? std::vector<std::string>() : ddp::base::split(rest, '|'));
    if (command == "resize") return pump.copy_console_size();
    if (command == "own") {
      pump.before_own_line();
      return write_all(STDERR_FILENO, rest + "\n");
    }
    pump.pause_footer(command == "pause");
  };
  std::string text;
  const auto watch = loop.keep_watching(STDIN_FILENO, [&] {
    std::array<char, 65536> buffer{};
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got <= 0) return loop.stop();
    text.append(buffer.data(), static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      obey(text.substr(0, end));
    }
  });
  loop.run();
  streams.value() = {};
  pump.drain();
  return 0;
}
