#include "launcher/start/log/log.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string_view>
#include <utility>

#include "base/host_name.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/uninterrupted.h"
#include "launcher/start/log/line_file.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kPrefix = "ddplaunch: ";
// A console that polls as ready accepts this much at once; the rest of a longer line could wait for the reader forever.
// The severity and its colour come before the text.
constexpr std::size_t kLongestLine = PIPE_BUF - kPrefix.size() - 40;
constexpr std::size_t kLongestRecord = 64 << 10;

spdlog::level::level_enum level_of(LogLevel level) {
  constexpr std::array kLevels = {spdlog::level::trace,   spdlog::level::debug, spdlog::level::info,
                                  spdlog::level::info,    spdlog::level::warn,  spdlog::level::err,
                                  spdlog::level::critical};
  return kLevels.at(static_cast<std::size_t>(level));
}

// Returns an empty text for a line that continues the previous one, or that only shows how the job starts.
std::string_view severity_of(const LogLine& line) {
  constexpr std::array<std::string_view, 7> kWords = {"trace: ", "debug: ", "", "note: ", "warning: ", "error: ", ""};
  return line.text.starts_with(' ') ? "" : kWords.at(static_cast<std::size_t>(line.level));
}

// Returns the launcher's names of its levels, which spdlog does not have.
std::string name_of(LogLevel level) {
  return base::split(std::string(kLogLevelNames) + " answer", ' ').at(static_cast<std::size_t>(level));
}

// Word formats %*, a word that is set before each line: the severity.
class Word : public spdlog::custom_flag_formatter {
 public:
  explicit Word(const std::string& word) : word_(word) {}
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& line) override {
    line.append(word_.data(), word_.data() + word_.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Word>(word_); }

 private:
  const std::string& word_;
};

class FileSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit FileSink(LineFile file) : file_(std::move(file)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    file_.write(std::string(line.data(), line.size()));
  }
  void flush_() override {}

  LineFile file_;
};

}  // namespace

// Writes to the sinks without a logger, which would only add a second threshold.
class Log::Sinks {
 public:
  explicit Sinks(const LogSettings& settings) {
    using spdlog::sinks::ansicolor_stderr_sink_st;
    auto sink = std::make_shared<ansicolor_stderr_sink_st>(settings.color ? spdlog::color_mode::always
                                                                          : spdlog::color_mode::never);
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<Word>('*', word_).set_pattern(std::string(kPrefix) + "%^%*%$%v");
    sink->set_formatter(std::move(formatter));
    console_ = sink;
  }

  void open(LineFile file) {
    file_ = std::make_shared<FileSink>(std::move(file));
    auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::local, "");
    formatter->add_flag<Word>('*', word_).set_pattern("%Y-%m-%dT%H:%M:%S.%e%z " + base::host_name() + "[%P] %* %n: %v");
    file_->set_formatter(std::move(formatter));
  }
  bool has_file() const { return file_ != nullptr; }

  void show(const LogLine& line, const std::string& text) {
    word_ = severity_of(line);
    write(*console_, line, text);
  }
  void record(const LogLine& line, const std::string& text) {
    word_ = name_of(line.level);
    write(*file_, line, text);
  }

 private:
  static void write(spdlog::sinks::sink& sink, const LogLine& line, const std::string& text) {
    sink.log({kLogSourceNames[static_cast<std::size_t>(line.source)], level_of(line.level), text});
  }

  std::string word_;  // severity or level of the current line
  spdlog::sink_ptr console_;
  spdlog::sink_ptr file_;
};

Log::Log(const LogSettings& settings)
    : settings_(settings), sinks_(std::make_unique<Sinks>(settings)), patience_(limits::kLastWordsWait) {}

Log::~Log() = default;

std::optional<base::Failure> Log::open_file() {
  auto file = LineFile::open("--launcher-log", settings_.file, [this](const std::string& why) {
    show({LogLevel::warning, LogSource::launcher, why});
  });
  if (!file) return file.error();
  if (file.value().is_open()) sinks_->open(std::move(file).value());
  return std::nullopt;
}

bool Log::wants(LogLevel level) const {
  return level >= settings_.level || (sinks_->has_file() && level >= LogLevel::debug);
}

void Log::record(const LogLine& line) {
  if (!sinks_->has_file() || !wants(line.level)) return;
  sinks_->record(line, base::printable(line.text, kLongestRecord));
}

bool Log::show(const LogLine& line, bool is_last) {
  if (line.level < settings_.level) return true;
  if (prepare_) prepare_(wait());
  const bool is_ready = console_is_ready(is_last);
  if (!is_ready) return false;
  // Lines for developers name their component, because they appear between the lines of the user's output.
  const bool is_detail = line.level <= LogLevel::debug;
  const std::string source(is_detail ? kLogSourceNames[static_cast<std::size_t>(line.source)] : "");
  sinks_->show(line, base::printable(source + (is_detail ? ": " : "") + line.text, kLongestLine));
  return true;
}

// A stopped console must not stop the launcher: SIGKILL would not be sent at the end of the grace period.
bool Log::console_is_ready(bool is_last) {
  using Milliseconds = std::chrono::milliseconds;
  const auto is_ready_within = [](Milliseconds limit) {
    return base::poll_until(STDERR_FILENO, POLLOUT, std::chrono::steady_clock::now() + limit) > 0;
  };
  takes_lines_ = is_ready_within(wait());
  while (!takes_lines_ && is_last && patience_ > Milliseconds(0) && !(gives_up_ && gives_up_())) {
    const auto began = std::chrono::steady_clock::now();
    takes_lines_ = is_ready_within(limits::kConsolePoll);
    patience_ -= std::chrono::ceil<Milliseconds>(std::chrono::steady_clock::now() - began);
  }
  return takes_lines_;
}

}  // namespace ddp::launcher
