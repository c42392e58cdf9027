#include "launcher/see/report/line_queue.h"

#include "base/text.h"

namespace ddp::launcher {

void LineQueue::say(const LogLine& line) {
  waiting_.push_back(line);
  if (waiting_.size() > kMostLines) {
    waiting_.pop_front();
    ++dropped_;
  }
  print();
}

bool LineQueue::print() {
  if (dropped_ > 0) {
    if (!ways_.try_to_print(dropped_line())) return false;
    dropped_ = 0;
  }
  for (; !waiting_.empty(); waiting_.pop_front()) {
    if (!ways_.try_to_print(waiting_.front())) return false;
  }
  return true;
}

void LineQueue::last_word(const LogLine& line) {
  finish();
  ways_.print_last_word(line);
}

void LineQueue::finish() {
  if (dropped_ > 0) ways_.print_last_word(dropped_line());
  dropped_ = 0;
  for (const LogLine& line : std::exchange(waiting_, {})) ways_.print_last_word(line);
}

LogLine LineQueue::dropped_line() const {
  return {LogLevel::warning, LogSource::output,
          base::counted(dropped_, "line") + " of ddplaunch " + base::plural(dropped_, "is", "are") +
              " missing here, because the console did not accept them"};
}

}  // namespace ddp::launcher
