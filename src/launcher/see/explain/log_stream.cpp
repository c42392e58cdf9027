#include "launcher/see/explain/log_stream.h"

#include <algorithm>
#include <utility>

#include "launcher/run/output/python_traceback.h"
#include "launcher/start/causes/cause_table.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kReportBytes = std::size_t{64} << 10;
constexpr std::size_t kMessageBytes = 4096;
constexpr std::size_t kFailuresOfStream = 16;  // of one stream: the first ones, and the last one
constexpr std::string_view kOriginal =
    "Original Traceback";  // PyTorch quotes the traceback of a thread or of a process

bool links(std::string_view text) {
  return text.starts_with("During handling of the above exception") ||
         text.starts_with("The above exception was the direct cause");
}

// Returns whether the first frame of a traceback is that of a program, of a notebook's cell or of a process of
// multiprocessing. One that a program prints itself begins in the function that has caught the exception.
bool begins_in_main(std::string_view traceback) {
  constexpr std::string_view kMains[] = {" in <module>",   "<frozen runpy>",  "Cell In[",
                                         "<ipython-input", ", in _bootstrap", ", in _wrap"};
  const std::size_t head = traceback.find('\n');
  if (head == std::string_view::npos) return false;
  // rich and IPython write no "File".
  const std::size_t file = traceback.find("File \"");
  const std::size_t frame = file == std::string_view::npos ? head + 1 : file;
  const std::string_view line = traceback.substr(frame, traceback.find('\n', frame) - frame);
  return std::ranges::any_of(kMains,
                             [&](std::string_view words) { return line.find(words) != std::string_view::npos; });
}

// A traceback quotes the lines that failed. Their words are those of other errors, too.
bool quotes_source(std::string_view text) {
  return text.starts_with("    ") || text.starts_with("│");
}

}  // namespace

bool LogStream::add(const LoggedLine& line, const LogPlace& at, const Cause* cause, Report begins,
                    bool is_of_launcher) {
  if (line.rank) rank_ = line.rank;
  if (line.local_rank) local_rank_ = line.local_rank;
  if (!is_in_report()) time_ = line.time;
  if (lines_since_ < kNearLines) ++lines_since_;
  const bool is_member = is_in_report() && is_group_ && line.text.starts_with("    ");  // of an exception group
  if (begins != Report::none && !is_member) {
    if (line.text.starts_with(kOriginal) && lines_since_ < kNearLines) is_linked_ = true;
    end_report();
    time_ = line.time;
    begin_report(line, at, begins, cause);
    return false;
  }
  if (is_in_report()) return add_to_report(line.text, cause);
  note_gap(line.text);
  if (links(line.text)) is_linked_ = true;
  if (cause == nullptr || (!is_of_launcher && only_tells(line.text))) return false;
  if (continues_exception(line)) {
    failures_.back().cause = better_cause(failures_.back().cause, cause);
    return false;
  }
  keep({.at = at,
        .message = std::string(line.text.substr(0, kMessageBytes)),
        .place = "",
        .cause = cause,
        .form = Form::words,
        .standing = is_of_launcher ? Standing::uncaught : Standing::said});
  return true;
}

// Notes whether the message of the last exception may go on after this line.
void LogStream::note_gap(std::string_view text) {
  if (text.empty()) {
    message_ = std::min(message_, Message::after_gap);
  } else if (message_ == Message::after_gap && !text.starts_with(' ')) {
    message_ = Message::over;
  }
}

// The message of an exception may go on. A line with a prefix of its own, or behind an empty one, is another message.
bool LogStream::continues_exception(const LoggedLine& line) const {
  if (lines_since_ >= kNearLines || failures_.empty() || failures_.back().form == Form::words) return false;
  return failures_.back().cause != nullptr || (message_ != Message::over && line.text.data() == line.body.data());
}

void LogStream::begin_report(const LoggedLine& line, const LogPlace& at, Report report, const Cause* cause) {
  report_ = report;
  text_ = line.text;
  begin_ = at;
  cause_ = cause;
  is_of_hook_ = line.body.starts_with("[rank");
  is_group_ = line.text.find("+ Exception Group ") != std::string_view::npos;
  if (report == Report::fatal_error) lines_since_ = 0;
}

bool LogStream::add_to_report(std::string_view text, const Cause* cause) {
  text_ += '\n';
  text_ += text;
  if (!quotes_source(text)) cause_ = better_cause(cause_, cause);
  bool is_last = text_.size() > kReportBytes;
  switch (report_) {
    case Report::python:
      is_last |= is_group_ ? !text.starts_with("  ") : names_exception(text);
      break;
    case Report::cxx:
      is_last = true;
      break;
    case Report::fatal_error:
      is_last |= !text.starts_with("  ") && text.find("hread 0x") == std::string_view::npos &&
                 text_.find("  File ") != std::string::npos;
      break;
    case Report::none:
      break;
  }
  if (is_last) end_report();
  return is_last;
}

void LogStream::end_report() {
  const Report report = std::exchange(report_, Report::none);
  if (report == Report::none) return;
  Failure failure{.at = begin_, .message = "", .place = "", .cause = cause_, .form = Form::exception};
  if (report == Report::fatal_error) {
    failure.message = text_.substr(0, text_.find('\n'));
    failure.form = failure.message.ends_with(": Aborted") ? Form::abort : Form::crash;
    failure.place = place_of_crash(text_);
  } else {
    const auto error = report == Report::cxx ? last_cxx_error(text_) : last_python_error(text_);
    failure.message = error ? error->message : "a traceback that is cut off";
    if (report == Report::cxx) failure.form = Form::abort;
    if (!error) failure.form = Form::fragment;
    if (error) failure.place = error->place;
  }
  failure.standing = std::exchange(is_of_thread_, false)       ? Standing::in_thread
                     : report != Report::python || is_of_hook_ ? Standing::uncaught
                     : begins_in_main(text_)                   ? Standing::in_main
                                                               : Standing::printed;
  failure.message.resize(std::min(failure.message.size(), kMessageBytes));
  text_.clear();
  const bool is_linked = std::exchange(is_linked_, false);
  lines_since_ = 0;
  message_ = Message::goes_on;
  if (!is_linked || failures_.empty() || failures_.back().form == Form::words) return keep(std::move(failure));
  // The later exception is the one that ended the program. The known one says more.
  Failure& first = failures_.back();
  first.standing = std::max(first.standing, failure.standing);
  // What is done about an exception, such as a last barrier, may fail because of it.
  const bool stays = first.cause == nullptr ? failure.proof() != Proof::failure
                                            : failure.cause == nullptr || first.proof() <= failure.proof();
  if (stays) return;
  first.message = std::move(failure.message);
  first.place = std::move(failure.place);
  first.cause = failure.cause;
}

void LogStream::keep(Failure failure) {
  failure.rank = rank_;
  failure.local_rank = local_rank_;
  failure.time = time_;
  if (failures_.size() < kFailuresOfStream) {
    failures_.push_back(std::move(failure));
  } else {
    failures_.back() = std::move(failure);
  }
}

}  // namespace ddp::launcher
